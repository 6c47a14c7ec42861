/* millrace send [FIELD=VALUE...] [--] PROMPT...: publishes a request and prints the answer. Without
 * a prompt in the words or fields the prompt is read from stdin. */
#include "codec/records/draft.h"
#include "codec/records/request_decode.h"
#include "worker/base/clock.h"
#include "worker/base/printable.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/answer.h"
#include "worker/client/client.h"
#include "worker/client/print_record.h"
#include "worker/kafka/kafka_admin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define OPEN_TIMEOUT_MS 10000u
#define SEND_TIMEOUT_MS 30000u
#define POLL_MS         200u
#define QUERY_MS        2000u
#define SILENCE_NS      ((uint64_t)3000000000) /* until a line says that no worker answers */
#define STDIN_BYTES_MAX ((size_t)16 << 20)

static void random_id(char id[33])
{
    unsigned char bytes[16] = {0};
    if (getrandom(bytes, sizeof bytes, 0) < 0) bytes[0] = (unsigned char)mr_clock_ns();
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

/* The value of a field among the words; NULL: there is no such field. */
static const char *find_field(const struct mr_config *config, const char *name)
{
    size_t length = strlen(name), count = mr_cli_count_fields(config);
    for (size_t i = 0; i < count; i++)
        if (strncmp(config->arguments[i], name, length) == 0 && config->arguments[i][length] == '=')
            return config->arguments[i] + length + 1;
    return NULL;
}

/* Reads the prompt from stdin, without a line end after it. */
static enum mr_status read_prompt(char **prompt, struct mr_error *err)
{
    char *text = malloc(STDIN_BYTES_MAX + 1);
    if (!text) return mr_fail(err, MR_NOMEM, "no memory for the prompt");
    size_t length = isatty(STDIN_FILENO) ? 0 : fread(text, 1, STDIN_BYTES_MAX, stdin);
    if (length > 0 && text[length - 1] == '\n') length--;
    text[length] = '\0';
    *prompt = text;
    return MR_OK;
}

/* Returns the prompt, malloc'ed; "" if one of the fields has it. */
static enum mr_status find_prompt(const struct mr_config *config, char **prompt,
                                  struct mr_error *err)
{
    size_t fields = mr_cli_count_fields(config), words = config->argument_count - fields;
    bool in_field = find_field(config, "prompt") || find_field(config, "messages") ||
                    find_field(config, "prompt_token_ids");
    enum mr_status status = MR_OK;
    *prompt = NULL;
    if (words == 0 && !in_field)
        status = read_prompt(prompt, err);
    else if (!(*prompt = mr_cli_join(config->arguments + fields, words)))
        status = mr_fail(err, MR_NOMEM, "no memory for the prompt");
    if (status != MR_OK || in_field || (*prompt)[0]) return status;
    free(*prompt);
    *prompt = NULL;
    return mr_fail(err, MR_BAD_CONFIG,
                   "there is no prompt: pass it as words, as a field (prompt=, messages=, "
                   "prompt_token_ids=) or on stdin");
}

/* Makes the request: leading FIELD=VALUE arguments become fields of the request, the rest is the
 * prompt. */
static enum mr_status make_request(const struct mr_config *config, const char *id,
                                   unsigned char **bytes, size_t *length, struct mr_error *err)
{
    char *prompt = NULL;
    enum mr_status status = find_prompt(config, &prompt, err);
    if (status != MR_OK) return status;
    struct mr_draft draft = {.id = {id, strlen(id)},
                             .prompt = {prompt, strlen(prompt)},
                             .as_chat = true,
                             .no_stream = !config->stream,
                             .fields = config->arguments,
                             .field_count = mr_cli_count_fields(config)};
    enum mr_encoding encoding = config->msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON;
    status = mr_draft_encode(&draft, encoding, bytes, length, err);
    free(prompt);
    return status;
}

static void warn(const char *text)
{
    fputs("millrace: warning: ", stderr);
    mr_print_escaped(stderr, (struct mr_text){text, strlen(text)}, "");
    fputc('\n', stderr);
}

/* Warns of a field that workers ignore because they do not know it, such as a misspelt one. */
static void warn_of_unknown_field(struct mr_text record, struct mr_text key)
{
    const struct mr_request_context context = {.key = key,
                                               .fallback_id = {"request", 7},
                                               .timestamp_ms = mr_clock_unix_ms(),
                                               .now_ms = mr_clock_unix_ms(),
                                               .default_max_tokens = 1,
                                               .record_bytes_max = record.length,
                                               .strict = true};
    struct mr_request *request = NULL;
    struct mr_reply_address address;
    struct mr_error err = {0};
    if (mr_request_decode(&request, record, &context, &address, &err) == MR_UNKNOWN_FIELD)
        warn(err.detail);
    mr_request_destroy(request);
}

struct wait {
    const struct mr_config *config;
    struct mr_client *client;
    struct mr_cli_signals *signals;
    struct mr_text id;
    struct mr_client_place place; /* of the request on the broker */
    struct mr_answer answer;
    /* The attempt of the token records read last, 0: none yet; whether they answer another request
     * under this id, one that was running when this one was sent. */
    uint32_t attempt;
    bool is_of_another;
    /* an attempt whose records answer another request, although its first token was printed; 0:
     * none */
    uint32_t foreign_attempt;
};

/* Whether the result answers another request under the same id. */
static bool is_result_of_another(const struct wait *wait, const struct mr_result *result)
{
    const char *topic = wait->config->request_topics[0].name;
    return result->error == MR_DUPLICATE_ID && wait->place.offset >= 0 &&
           !(mr_text_is(result->source_topic, topic) &&
             result->source_partition == wait->place.partition &&
             result->source_offset == wait->place.offset);
}

static void begin_lower_attempt(struct wait *wait, uint32_t attempt)
{
    wait->foreign_attempt = wait->attempt;
    wait->attempt = attempt;
    mr_follow_restart(&wait->answer.follow);
}

/* Whether the token record answers another request under the same id (such records come before a
 * first token), or comes late from a worker whose attempt was replaced.
 *
 * While the records of another request are read, a first token of another choice is that request's
 * too, and so is one of a higher attempt: that request is run again after a crash. If the first
 * record read is such a first token, it is printed. The first token of a lower attempt then shows
 * the mistake, because attempts of one request only rise: this request begins with it. */
static bool is_stray(struct wait *wait, const struct mr_token_record *tokens)
{
    const bool may_begin =
        !wait->is_of_another || (tokens->choice == 0 && tokens->attempt <= wait->attempt);
    const bool is_first = tokens->index == 0 && tokens->choice == 0;
    const bool begins = tokens->index == 0 && may_begin;
    if (tokens->attempt == wait->foreign_attempt && !is_first) return true;
    if (!wait->is_of_another && tokens->attempt < wait->attempt) {
        if (is_first) begin_lower_attempt(wait, tokens->attempt);
        return !is_first;
    }
    if (wait->is_of_another || tokens->attempt != wait->attempt)
        wait->is_of_another = !begins && (wait->is_of_another || tokens->resumed_at < 0);
    wait->attempt = tokens->attempt;
    return wait->is_of_another;
}

static bool is_mine(struct wait *wait, const struct mr_client_event *event)
{
    if (event->kind == MR_CLIENT_OTHER || event->id.length != wait->id.length ||
        memcmp(event->id.bytes, wait->id.bytes, event->id.length) != 0)
        return false;
    return event->kind == MR_CLIENT_RESULT ? !is_result_of_another(wait, &event->result)
                                           : !is_stray(wait, &event->tokens);
}

static int exit_code_of(const struct mr_result *result)
{
    enum mr_finish finish = result->choice_count > 0 ? result->choices[0].finish : MR_FINISH_NONE;
    return finish == MR_FINISH_REJECTED || finish == MR_FINISH_ERROR ? MR_EXIT_FAILED
                                                                     : MR_EXIT_DONE;
}

/* Prints one record of the request that was sent; true when the record was the request's result. */
static bool print_event(struct wait *wait, const struct mr_client_event *event)
{
    bool ends = event->kind == MR_CLIENT_RESULT;
    if (wait->config->json)
        mr_print_json(event->record.value, event->encoding, stdout, NULL);
    else if (ends)
        mr_answer_result(&wait->answer, event);
    else
        mr_answer_tokens(&wait->answer, &event->tokens);
    if (ends) mr_print_summary(&event->result, stderr);
    return ends;
}

/* Prints why an answer may be missing: usually no worker runs, or it reads another topic. */
static void note_silence(const struct wait *wait)
{
    const char *topic = wait->config->request_topics[0].name;
    struct mr_kafka_admin *admin = NULL;
    bool embedded, is_known = false;
    uint32_t members = 0;
    enum mr_status status = mr_kafka_admin_open(&admin, mr_client_kafka(wait->client), NULL);
    if (status == MR_OK) status = mr_kafka_admin_probe(admin, QUERY_MS, &embedded, NULL);
    if (status == MR_OK)
        status = mr_kafka_admin_readers(admin, topic, QUERY_MS, &is_known, &members, NULL);
    mr_kafka_admin_close(admin);
    if (status == MR_OK && is_known && members == 0)
        fprintf(
            stderr,
            "millrace: no worker has answered yet: no consumer group with members reads %s; start "
            "a worker (millrace serve)\n",
            topic);
    else
        fprintf(stderr, "millrace: no worker has answered yet; the request waits in %s\n", topic);
}

static int await(struct wait *wait)
{
    bool is_silent = true;
    struct mr_client_event event;
    struct mr_error err = {0};
    uint64_t start_ns = mr_clock_ns();
    uint64_t timeout_ns = wait->config->timeout_ns;
    while (!mr_cli_signals_wait(wait->signals, -1, 0)) {
        if (mr_cli_output_failed()) return MR_EXIT_DONE;
        if (timeout_ns > 0 && mr_clock_ns() - start_ns >= timeout_ns) {
            fprintf(stderr, "millrace: no answer within --timeout\n");
            break;
        }
        if (mr_client_health(wait->client, &err) != MR_OK) return mr_cli_fail(&err);
        if (is_silent && mr_clock_ns() - start_ns >= SILENCE_NS) {
            note_silence(wait);
            is_silent = false;
        }
        if (!mr_client_take(wait->client, POLL_MS, &event) || !is_mine(wait, &event)) continue;
        is_silent = false;
        if (print_event(wait, &event)) return exit_code_of(&event.result);
    }
    return MR_EXIT_FAILED;
}

/* Publishes the request and prints its answer, or with --no-wait its id; returns the exit code. */
static int publish(const struct mr_config *config, struct mr_cli_signals *signals,
                   struct mr_text id, struct mr_text request)
{
    struct mr_client *client = NULL;
    struct mr_error err = {0};
    struct mr_client_options options = {.config = config,
                                        .requests = true,
                                        .reads = config->wait,
                                        .timeout_ms = mr_cli_timeout_ms(config, OPEN_TIMEOUT_MS),
                                        .send_timeout_ms =
                                            mr_cli_timeout_ms(config, SEND_TIMEOUT_MS),
                                        .notices = stderr};
    enum mr_status status = mr_client_open(&client, &options, &err);
    if (status == MR_OK)
        status = mr_client_request(client, config->request_topics[0].name, id, request,
                                   config->msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON, &err);
    int code = status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
    if (status == MR_OK && config->wait) {
        struct wait wait = {.config = config,
                            .client = client,
                            .signals = signals,
                            .id = id,
                            .place = mr_client_last_place(client)};
        const char *choices = find_field(config, "n");
        mr_answer_init(&wait.answer, stdout, choices && strcmp(choices, "1") != 0);
        wait.answer.follow.escapes = isatty(STDOUT_FILENO);
        code = await(&wait);
        mr_answer_free(&wait.answer);
    } else if (status == MR_OK) {
        printf("%s\n", id.bytes);
    }
    mr_client_close(client);
    return code;
}

int mr_cli_send(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    char generated_id[33];
    struct mr_cli_signals signals;
    struct mr_error err = {0};
    unsigned char *bytes = NULL;
    size_t length = 0;
    random_id(generated_id);
    const char *id = config->id[0] ? config->id : generated_id;
    struct mr_text key = {id, strlen(id)};
    enum mr_status status = mr_cli_check_id(id, &err);
    if (status == MR_OK) status = make_request(config, id, &bytes, &length, &err);
    if (status != MR_OK) return mr_cli_fail(&err);
    struct mr_text request = {(const char *)bytes, length};
    warn_of_unknown_field(request, key);
    mr_cli_signals_open(&signals);
    int code = publish(config, &signals, key, request);
    mr_cli_signals_close(&signals);
    free(bytes);
    return code;
}
