/* millrace send [FIELD=VALUE...] PROMPT...: publishes a request and prints the answer. */
#include "codec/records/draft.h"
#include "codec/records/request_decode.h"
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/client.h"
#include "worker/client/follow.h"
#include "worker/client/print_record.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define OPEN_TIMEOUT_MS 10000u
#define SEND_TIMEOUT_MS 30000u
#define POLL_MS         200u

/* True for FIELD=VALUE, where FIELD has only lower-case letters and underscores. */
static bool is_field(const char *argument)
{
    size_t length = 0;
    while (islower((unsigned char)argument[length]) || argument[length] == '_')
        length++;
    return length > 0 && argument[length] == '=';
}

static void random_id(char id[33])
{
    unsigned char bytes[16] = {0};
    if (getrandom(bytes, sizeof bytes, 0) < 0) bytes[0] = (unsigned char)mr_clock_ns();
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

/* Makes the request: leading FIELD=VALUE arguments become fields of the request, the rest is the
 * prompt. */
static enum mr_status make_request(const struct mr_config *config, const char *id,
                                   unsigned char **bytes, size_t *length, struct mr_error *err)
{
    size_t fields = 0;
    while (fields < config->argument_count && is_field(config->arguments[fields]))
        fields++;
    char *prompt = mr_cli_join(config->arguments + fields, config->argument_count - fields);
    if (!prompt) return mr_fail(err, MR_NOMEM, "no memory for the prompt");
    struct mr_draft draft = {.id = {id, strlen(id)},
                             .prompt = {prompt, strlen(prompt)},
                             .as_chat = true,
                             .no_stream = !config->stream,
                             .fields = config->arguments,
                             .field_count = fields};
    enum mr_encoding encoding = config->msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON;
    enum mr_status status = mr_draft_encode(&draft, encoding, bytes, length, err);
    free(prompt);
    return status;
}

/* Warns of a field that workers ignore because they do not know it, such as one misspelt. */
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
        fprintf(stderr, "millrace: warning: %s\n", err.detail);
    mr_request_destroy(request);
}

struct wait {
    const struct mr_config *config;
    struct mr_client *client;
    struct mr_cli_signals *signals;
    struct mr_text id;
};

static bool is_mine(const struct wait *wait, const struct mr_client_event *event)
{
    return event->kind != MR_CLIENT_OTHER && event->id.length == wait->id.length &&
           memcmp(event->id.bytes, wait->id.bytes, event->id.length) == 0;
}

static int exit_code_of(const struct mr_result *result)
{
    enum mr_finish finish = result->choice_count > 0 ? result->choices[0].finish : MR_FINISH_NONE;
    return finish == MR_FINISH_REJECTED || finish == MR_FINISH_ERROR ? MR_EXIT_FAILED
                                                                     : MR_EXIT_DONE;
}

/* Prints one record of the request that was sent; true when the record was the request's result. */
static bool print_event(const struct wait *wait, const struct mr_client_event *event,
                        struct mr_follow *follow)
{
    if (wait->config->json)
        mr_print_json(event->record.value, event->encoding, stdout, NULL);
    else if (event->kind == MR_CLIENT_TOKENS)
        mr_follow_tokens(follow, &event->tokens);
    else
        mr_follow_result(follow, &event->result);
    if (event->kind == MR_CLIENT_TOKENS) return false;
    if (!wait->config->json) putchar('\n');
    fflush(stdout);
    mr_print_summary(&event->result, stderr);
    return true;
}

static int await(const struct wait *wait)
{
    struct mr_follow follow;
    struct mr_client_event event;
    uint64_t start_ns = mr_clock_ns();
    uint64_t timeout_ns = wait->config->timeout_ns;
    int code = MR_EXIT_FAILED;
    mr_follow_init(&follow, stdout);
    for (;;) {
        if (mr_cli_signals_wait(wait->signals, -1, 0)) break;
        if (timeout_ns > 0 && mr_clock_ns() - start_ns >= timeout_ns) {
            fprintf(stderr, "millrace: no answer within --timeout\n");
            break;
        }
        if (!mr_client_take(wait->client, POLL_MS, &event) || !is_mine(wait, &event)) continue;
        if (!print_event(wait, &event, &follow)) continue;
        code = exit_code_of(&event.result);
        break;
    }
    mr_follow_free(&follow);
    return code;
}

int mr_cli_send(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    char generated_id[33];
    struct mr_cli_signals signals;
    struct mr_client *client = NULL;
    struct mr_error err = {0};
    unsigned char *bytes = NULL;
    size_t length = 0;
    random_id(generated_id);
    const char *id = config->id[0] ? config->id : generated_id;
    struct mr_text key = {id, strlen(id)};
    struct mr_client_options options = {.config = config,
                                        .requests = true,
                                        .reads = config->wait,
                                        .timeout_ms = mr_cli_timeout_ms(config, OPEN_TIMEOUT_MS),
                                        .send_timeout_ms =
                                            mr_cli_timeout_ms(config, SEND_TIMEOUT_MS)};
    mr_cli_signals_open(&signals);
    enum mr_status status = make_request(config, id, &bytes, &length, &err);
    if (status == MR_OK) warn_of_unknown_field((struct mr_text){(const char *)bytes, length}, key);
    if (status == MR_OK) status = mr_client_open(&client, &options, &err);
    if (status == MR_OK)
        status = mr_client_request(client, config->request_topics[0].name, key,
                                   (struct mr_text){(const char *)bytes, length},
                                   config->msgpack ? MR_ENCODING_MSGPACK : MR_ENCODING_JSON, &err);
    int code = status == MR_OK ? MR_EXIT_DONE : mr_cli_fail(&err);
    struct wait wait = {config, client, &signals, key};
    if (status == MR_OK && config->wait)
        code = await(&wait);
    else if (status == MR_OK)
        printf("%s\n", id);
    free(bytes);
    mr_client_close(client);
    mr_cli_signals_close(&signals);
    return code;
}
