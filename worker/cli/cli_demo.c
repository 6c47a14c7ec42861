/* millrace demo [FIELD=VALUE...] [PROMPT...]: runs the embedded broker, a worker and a client in
 * one process. The worker computes all answers at the same time and stdout shows them one after the
 * other, so the text of later answers is buffered. With --json stdout has the records of the
 * answers instead, one a line, as they arrive. */
#include "codec/records/draft.h"
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/cli/default_model.h"
#include "worker/client/client.h"
#include "worker/client/follow.h"
#include "worker/client/print_record.h"
#include "worker/config/topics.h"
#include "worker/kafka/kafka_mock.h"
#include "worker/serve/drain.h"
#include "worker/serve/worker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_TIMEOUT_MS 10000u
#define POLL_MS         100u
#define PROMPTS_MAX     ((size_t)64)
#define FIELDS_MAX      ((size_t)64)
#define DEMO_DRAIN_NS   ((uint64_t)2000000000)

static const char *const default_prompts[] = {"Why is the sky blue?"};
static const char *const demo_fields[] = {"max_tokens=128", "temperature=0"};

struct answer {
    const char *prompt;
    char id[32];
    struct mr_follow follow;
    /* collects this answer's text in buffered_text until the answer's turn to be shown */
    FILE *buffer;
    char *buffered_text;
    size_t buffered_length;
    uint64_t sent_ns, first_ns;
    uint32_t prompt_tokens, output_tokens;
    double first_ms, total_ms;
    enum mr_finish finish;
    struct mr_error error;
    bool done;
};

struct demo {
    const struct mr_config *config;
    const char *fields[FIELDS_MAX + 2]; /* [field_count] FIELD=VALUE of every request */
    size_t field_count;
    struct mr_cli_signals signals;
    struct mr_kafka_mock *mock;
    struct mr_worker *worker;
    struct mr_client *client;
    struct answer answers[PROMPTS_MAX];
    size_t count, turn; /* turn: index of the answer that stdout shows now */
    uint64_t begin_ns, end_ns;
};

/* ---- start ---- */

static enum mr_status open_broker(struct demo *demo, struct mr_error *err)
{
    struct mr_topic topic;
    enum mr_status status = mr_kafka_mock_create(&demo->mock, 1, err);
    for (size_t i = 0; status == MR_OK && mr_topics_at(demo->config, i, &topic); i++)
        status = mr_kafka_mock_topic(demo->mock, topic.name, demo->config->partitions, err);
    return status;
}

static enum mr_status open_client(struct demo *demo, struct mr_error *err)
{
    struct mr_client_options options = {.config = demo->config,
                                        .brokers = mr_kafka_mock_bootstrap(demo->mock),
                                        .reads = true,
                                        .creates = true,
                                        .requests = true,
                                        .timeout_ms = OPEN_TIMEOUT_MS};
    return mr_client_open(&demo->client, &options, err);
}

static bool has_field(const struct demo *demo, const char *field)
{
    const size_t length = (size_t)(strchr(field, '=') - field) + 1;
    for (size_t i = 0; i < demo->field_count; i++)
        if (strncmp(demo->fields[i], field, length) == 0) return true;
    return false;
}

/* The user's fields, and the defaults of those that are not among them. */
static void set_fields(struct demo *demo)
{
    demo->field_count = mr_cli_count_fields(demo->config);
    for (size_t i = 0; i < demo->field_count; i++)
        demo->fields[i] = demo->config->arguments[i];
    for (size_t i = 0; i < sizeof demo_fields / sizeof *demo_fields; i++)
        if (!has_field(demo, demo_fields[i])) demo->fields[demo->field_count++] = demo_fields[i];
}

static void set_prompts(struct demo *demo)
{
    const size_t fields = mr_cli_count_fields(demo->config);
    const bool given = demo->config->argument_count > fields;
    const char *const *prompts = given ? demo->config->arguments + fields : default_prompts;
    demo->count = given ? demo->config->argument_count - fields
                        : sizeof default_prompts / sizeof *default_prompts;
    for (size_t i = 0; i < demo->count; i++) {
        struct answer *answer = &demo->answers[i];
        answer->prompt = prompts[i];
        snprintf(answer->id, sizeof answer->id, "demo-%zu", i + 1);
        answer->buffer = open_memstream(&answer->buffered_text, &answer->buffered_length);
        mr_follow_init(&answer->follow, answer->buffer);
        answer->follow.escapes = isatty(STDOUT_FILENO);
    }
}

static void free_answers(struct demo *demo)
{
    for (size_t i = 0; i < demo->count; i++) {
        mr_follow_free(&demo->answers[i].follow);
        if (demo->answers[i].buffer) fclose(demo->answers[i].buffer);
        free(demo->answers[i].buffered_text);
    }
}

static enum mr_status send_prompt(struct demo *demo, struct answer *answer, struct mr_error *err)
{
    struct mr_text id = {answer->id, strlen(answer->id)};
    struct mr_draft draft = {.id = id,
                             .prompt = {answer->prompt, strlen(answer->prompt)},
                             .as_chat = true,
                             .fields = demo->fields,
                             .field_count = demo->field_count};
    unsigned char *bytes = NULL;
    size_t length = 0;
    enum mr_status status = mr_draft_encode(&draft, MR_ENCODING_JSON, &bytes, &length, err);
    if (status != MR_OK) return status;
    answer->sent_ns = mr_clock_ns();
    status = mr_client_request_async(demo->client, demo->config->request_topics[0].name, id,
                                     (struct mr_text){(const char *)bytes, length},
                                     MR_ENCODING_JSON, err);
    free(bytes);
    return status;
}

/* ---- output ---- */

/* Prints the buffered text of the answer whose turn it is; further text goes straight to stdout. */
static void begin_turn(struct demo *demo)
{
    if (demo->turn >= demo->count || demo->config->json) return;
    struct answer *answer = &demo->answers[demo->turn];
    printf("\n> %s\n\n", answer->prompt);
    fflush(answer->buffer);
    fwrite(answer->buffered_text, 1, answer->buffered_length, stdout);
    fflush(stdout);
    answer->follow.out = stdout;
}

static void end_turns(struct demo *demo)
{
    while (demo->turn < demo->count && demo->answers[demo->turn].done) {
        const struct answer *answer = &demo->answers[demo->turn];
        if (answer->error.status != MR_OK && !demo->config->json)
            mr_follow_print(&answer->follow,
                            (struct mr_text){answer->error.detail, strlen(answer->error.detail)});
        if (!demo->config->json) printf("\n");
        demo->turn++;
        begin_turn(demo);
    }
}

static struct answer *answer_of(struct demo *demo, struct mr_text id)
{
    for (size_t i = 0; i < demo->count; i++)
        if (strlen(demo->answers[i].id) == id.length &&
            memcmp(demo->answers[i].id, id.bytes, id.length) == 0)
            return &demo->answers[i];
    return NULL;
}

static void take_result(struct answer *answer, const struct mr_result *result)
{
    mr_follow_result(&answer->follow, result);
    answer->done = true;
    answer->prompt_tokens = result->prompt_tokens;
    answer->first_ms = result->first_token_ms;
    answer->total_ms = result->total_ms;
    if (result->choice_count > 0) {
        answer->finish = result->choices[0].finish;
        answer->output_tokens = result->choices[0].completion_tokens;
    }
    if (result->error != MR_OK)
        mr_fail(&answer->error, result->error, "%s: %s", mr_status_code(result->error),
                result->error_message ? result->error_message : "");
}

static void take_event(struct demo *demo, const struct mr_client_event *event)
{
    struct answer *answer = answer_of(demo, event->id);
    if (!answer || answer->done) return;
    if (demo->config->json && event->kind != MR_CLIENT_OTHER)
        mr_print_json(event->record.value, event->encoding, stdout, NULL);
    if (event->kind == MR_CLIENT_TOKENS) {
        if (answer->first_ns == 0) answer->first_ns = mr_clock_ns();
        mr_follow_tokens(&answer->follow, &event->tokens);
    } else if (event->kind == MR_CLIENT_RESULT) {
        take_result(answer, &event->result);
        end_turns(demo);
    }
}

static enum mr_status stream_answers(struct demo *demo, struct mr_error *err)
{
    struct mr_client_event event;
    demo->begin_ns = mr_clock_ns();
    begin_turn(demo);
    while (demo->turn < demo->count) {
        if (mr_cli_signals_wait(&demo->signals, -1, 0))
            return mr_fail(err, MR_CLOSED, "interrupted");
        enum mr_status status = mr_worker_health(demo->worker, err);
        if (status == MR_OK) status = mr_client_health(demo->client, err);
        if (status != MR_OK) return status;
        if (mr_client_take(demo->client, POLL_MS, &event)) take_event(demo, &event);
    }
    demo->end_ns = mr_clock_ns();
    return MR_OK;
}

static void print_summary(const struct demo *demo)
{
    uint32_t prompt_tokens = 0, output_tokens = 0;
    uint64_t first_ns = UINT64_MAX;
    bool cut = false;
    for (size_t i = 0; i < demo->count; i++) {
        const struct answer *answer = &demo->answers[i];
        cut |= answer->finish == MR_FINISH_LENGTH;
        prompt_tokens += answer->prompt_tokens;
        output_tokens += answer->output_tokens;
        uint64_t waited_ns = answer->first_ns > 0 ? answer->first_ns - answer->sent_ns : 0;
        if (answer->first_ns > 0 && waited_ns < first_ns) first_ns = waited_ns;
    }
    double seconds = (double)(demo->end_ns - demo->begin_ns) / 1e9;
    const struct mr_model_info *model = mr_worker_model(demo->worker);
    printf("\n%" PRIu32 " prompt tokens, %" PRIu32 " output tokens, %.1f tok/s, ", prompt_tokens,
           output_tokens, seconds > 0 ? (double)output_tokens / seconds : 0.0);
    if (first_ns != UINT64_MAX) printf("first token after %.0f ms, ", (double)first_ns / 1e6);
    printf("finish reason %s\n", mr_finish_text(demo->answers[0].finish));
    if (cut) printf("finish reason length: the answer was cut after max_tokens tokens\n");
    printf("%s, %s on %s; requests and answers went through the embedded test broker at %s, which "
           "keeps them in memory only\n",
           demo->config->model_name, model->dtype, model->device,
           mr_kafka_mock_bootstrap(demo->mock));
    fflush(stdout);
}

static int first_failure(const struct demo *demo)
{
    for (size_t i = 0; i < demo->count; i++)
        if (demo->answers[i].error.status != MR_OK) return MR_EXIT_FAILED;
    return MR_EXIT_DONE;
}

static int run(struct demo *demo, struct mr_log *log, struct mr_error *err)
{
    enum mr_exit code = MR_EXIT_FAILED;
    enum mr_status status = open_broker(demo, err);
    if (status != MR_OK) return mr_cli_fail(err);
    struct mr_worker_options options = {.config = demo->config,
                                        .brokers = mr_kafka_mock_bootstrap(demo->mock),
                                        /* false: no consumer group, since this is the only
                                         * worker */
                                        .join_group = false,
                                        .log = log};
    if (isatty(STDERR_FILENO)) fprintf(stderr, "loading %s ...\n", demo->config->model);
    status = mr_worker_create(&demo->worker, &options, &code, err);
    if (status != MR_OK) {
        mr_cli_fail(err);
        return (int)code;
    }
    status = open_client(demo, err);
    for (size_t i = 0; i < demo->count && status == MR_OK; i++)
        status = send_prompt(demo, &demo->answers[i], err);
    if (status == MR_OK) status = stream_answers(demo, err);
    if (status == MR_OK && !demo->config->json) print_summary(demo);
    int end = status == MR_OK ? first_failure(demo) : mr_cli_fail(err);
    bool ended = false;
    mr_worker_drain(demo->worker, DEMO_DRAIN_NS, NULL, NULL, &ended);
    fflush(stdout);
    /* threads that did not end may still use the embedded broker and the log */
    if (!ended) _exit(end);
    return end;
}

int mr_cli_demo(const struct mr_config *given, struct mr_log *log)
{
    char path[4200];
    struct mr_error err = {0};
    struct mr_config config = *given;
    const size_t fields = mr_cli_count_fields(&config);
    if (config.argument_count - fields > PROMPTS_MAX || fields > FIELDS_MAX) {
        mr_fail(&err, MR_BAD_CONFIG, "demo takes at most %zu prompts and %zu fields", PROMPTS_MAX,
                FIELDS_MAX);
        return mr_cli_fail(&err);
    }
    if (!config.model[0]) {
        if (mr_default_model_find(path, sizeof path, &err) != MR_OK) return mr_cli_fail(&err);
        config.model = path;
        config.model_name = MR_DEFAULT_MODEL;
    }
    struct demo *demo = calloc(1, sizeof *demo);
    if (!demo) return MR_EXIT_FAILED;
    demo->config = &config;
    mr_cli_signals_open(&demo->signals);
    set_fields(demo);
    set_prompts(demo);
    int code = run(demo, log, &err);
    mr_client_close(demo->client);
    mr_kafka_mock_destroy(demo->mock);
    free_answers(demo);
    mr_cli_signals_close(&demo->signals);
    free(demo);
    return code;
}
