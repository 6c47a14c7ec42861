#include "worker/gateway/accept.h"

#include "codec/openai/call.h"
#include "codec/openai/copy.h"
#include "codec/wire/document.h"
#include "worker/base/clock.h"
#include "worker/config/option_value.h"
#include "worker/gateway/keys.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define GRACE_NS         ((uint64_t)1000000000) /* for the worker's own answer at its deadline */
#define FIRST_COMMENT_NS ((uint64_t)3000000000)
#define CHOICES_MAX      64
#define DAY_MS           ((uint64_t)86400000)
#define NO_WORKER_S      10u
/* with the name of a key and a colon, an id of the largest size */
#define IDEMPOTENCY_KEY_BYTES_MAX (MR_EXCHANGE_ID_BYTES - 1 - MR_KEY_NAME_BYTES)

void mr_accept_refuse(struct mr_accept_refusal *refusal, const char *code, const char *message,
                      int http_status)
{
    static const struct mr_value none = {0};
    snprintf(refusal->message, sizeof refusal->message, "%s", message);
    mr_openai_error_of(&refusal->error, (struct mr_text){code, strlen(code)},
                       (struct mr_text){"", 0}, none);
    refusal->error.message = (struct mr_text){refusal->message, strlen(refusal->message)};
    if (http_status > 0) refusal->error.http_status = http_status;
}

static bool refuse(struct mr_accept_refusal *refusal, const char *code, const char *message,
                   int http_status)
{
    mr_accept_refuse(refusal, code, message, http_status);
    return false;
}

/* A refusal whose param is the member that the sentence begins with. */
static bool refuse_member(struct mr_accept_refusal *refusal, enum mr_status status,
                          const char *message, struct mr_value body)
{
    const char *code = mr_status_code(status);
    mr_accept_refuse(refusal, code, message, 0);
    mr_openai_error_of(&refusal->error, (struct mr_text){code, strlen(code)},
                       refusal->error.message, body);
    return false;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

static bool choose_id(struct mr_exchange *exchange, const char *given,
                      struct mr_accept_refusal *refusal)
{
    unsigned char bytes[16];
    if (!given || !given[0]) {
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            return refuse(refusal, "internal", "no random id could be made", 0);
        for (size_t i = 0; i < sizeof bytes; i++)
            snprintf(exchange->id + 2 * i, 3, "%02x", bytes[i]);
        return true;
    }
    if (strlen(given) > IDEMPOTENCY_KEY_BYTES_MAX || !is_printable(given))
        return refuse(refusal, "invalid_request",
                      "Idempotency-Key must be at most 64 printable characters", 0);
    const char *owner = exchange->key ? exchange->key->name : "";
    snprintf(exchange->id, sizeof exchange->id, "%s%s%s", owner, owner[0] ? ":" : "", given);
    exchange->is_idempotent = true;
    return true;
}

static bool read_timeout(const struct mr_accept_rules *rules, const char *given,
                         uint64_t *timeout_ns, struct mr_accept_refusal *refusal)
{
    uint64_t ms;
    *timeout_ns = rules->timeout_ns;
    if (!given) return true;
    if (!mr_parse_uint(given, &ms) || ms < 1 || ms > DAY_MS)
        return refuse(refusal, "invalid_request",
                      "the header x-timeout-ms must be 1 to 86400000 milliseconds", 0);
    if (ms * 1000000 < *timeout_ns) *timeout_ns = ms * 1000000;
    return true;
}

static bool check_fleet(const struct mr_accept_rules *rules, uint64_t now_ns,
                        struct mr_accept_refusal *refusal)
{
    const enum mr_fleet_state state = mr_fleet_state(rules->fleet, now_ns);
    if (state == MR_FLEET_READY || (state == MR_FLEET_NO_WORKER && rules->waits_for_workers))
        return true;
    refusal->retry_after_s = NO_WORKER_S;
    return refuse(refusal, "internal",
                  state == MR_FLEET_NO_BROKER ? "no broker can be reached" : "no worker is running",
                  503);
}

static bool check_key(struct mr_exchange *exchange, struct mr_text model, uint64_t now_ns,
                      struct mr_accept_refusal *refusal)
{
    struct mr_key *key = exchange->key;
    if (!key) return true;
    if (!mr_key_allows(key, model))
        return refuse(refusal, "model_not_found",
                      model.length > 0
                          ? "the model does not exist, or this key may not use it"
                          : "this key may use some models only, so `model` is required",
                      0);
    refusal->retry_after_s = mr_key_admit(key, now_ns);
    if (refusal->retry_after_s == 0) return true;
    refuse(refusal, "overloaded", "the key's limit of requests or tokens in a minute is reached",
           0);
    refusal->error.code = (struct mr_text){"rate_limit_exceeded", 19};
    return false;
}

static bool get_bool(struct mr_value map, const char *name)
{
    struct mr_value value;
    return mr_openai_get(map, name, &value) && mr_value_kind(value) == MR_VALUE_BOOL &&
           mr_value_bool(value);
}

/* Fills the members that follow from the body. */
static void read_members(const struct mr_accept_rules *rules, struct mr_exchange *exchange,
                         struct mr_value body)
{
    struct mr_value options;
    struct mr_text model = {"", 0}, session = {exchange->id, strlen(exchange->id)};
    const int64_t n = mr_openai_get_int(body, "n", 1);
    const bool streams = exchange->endpoint == MR_OPENAI_CHAT ||
                         exchange->endpoint == MR_OPENAI_COMPLETIONS ||
                         exchange->endpoint == MR_OPENAI_RESPONSES;
    exchange->is_stream = streams && get_bool(body, "stream");
    exchange->has_usage_chunk = exchange->is_stream &&
                                mr_openai_get(body, "stream_options", &options) &&
                                get_bool(options, "include_usage");
    exchange->choice_count = n >= 1 && n <= CHOICES_MAX ? (uint32_t)n : 1;
    (void)mr_openai_get_text(body, "model", &model);
    snprintf(exchange->model, sizeof exchange->model, "%.*s", (int)model.length, model.bytes);
    if (model.length == 0) (void)mr_fleet_model(rules->fleet, 0, exchange->model);
    (void)mr_openai_get_text(body, "session", &session);
    snprintf(exchange->record_key, sizeof exchange->record_key, "%.*s", (int)session.length,
             session.bytes);
    exchange->topic =
        exchange->key && exchange->key->topic[0] ? exchange->key->topic : rules->topic;
}

static bool make_record(const struct mr_accept_rules *rules, struct mr_exchange *exchange,
                        struct mr_value body, uint64_t timeout_ns,
                        struct mr_accept_refusal *refusal)
{
    struct mr_error err = {0};
    const struct mr_openai_call call = {
        .endpoint = exchange->endpoint,
        .body = body,
        .id = {exchange->id, strlen(exchange->id)},
        .stream = exchange->is_stream,
        .timeout_ms = exchange->is_idempotent ? (int64_t)(timeout_ns / 1000000) : 0};
    const enum mr_status status =
        mr_openai_call_record(&call, &exchange->record, &exchange->record_length, &err);
    if (status != MR_OK) return refuse_member(refusal, status, err.detail, body);
    if (exchange->record_length <= rules->record_bytes_max) return true;
    return refuse(refusal, "record_too_large", "the request is larger than the fleet takes", 0);
}

static bool read_body(const struct mr_accept_rules *rules, struct mr_exchange *exchange,
                      struct mr_value body, const struct mr_accept_headers *headers,
                      struct mr_accept_refusal *refusal)
{
    uint64_t timeout_ns = 0;
    struct mr_text model = {"", 0};
    const struct mr_time now = mr_clock_now();
    (void)mr_openai_get_text(body, "model", &model);
    if (!choose_id(exchange, headers->idempotency_key, refusal) ||
        !read_timeout(rules, headers->timeout_ms, &timeout_ns, refusal) ||
        !check_fleet(rules, now.ns, refusal) || !check_key(exchange, model, now.ns, refusal))
        return false;
    read_members(rules, exchange, body);
    exchange->created_s = now.unix_ms / 1000;
    exchange->start_ns = now.ns;
    exchange->deadline_ns = now.ns + timeout_ns + GRACE_NS;
    exchange->comment_ns = now.ns + FIRST_COMMENT_NS;
    if (!exchange->is_idempotent)
        exchange->deadline_ms = now.unix_ms + (int64_t)(timeout_ns / 1000000);
    if (headers->trace_parent && strlen(headers->trace_parent) < sizeof exchange->trace_parent)
        snprintf(exchange->trace_parent, sizeof exchange->trace_parent, "%s",
                 headers->trace_parent);
    return make_record(rules, exchange, body, timeout_ns, refusal);
}

bool mr_accept(const struct mr_accept_rules *rules, struct mr_exchange *exchange,
               const struct mr_accept_headers *headers, struct mr_accept_refusal *refusal)
{
    struct mr_document *document = NULL;
    struct mr_error err = {0};
    *refusal = (struct mr_accept_refusal){0};
    if (exchange->body.length == 0)
        return refuse(refusal, "invalid_request", "the call has no body", 0);
    if (mr_document_open(&document, mr_buffer_text(&exchange->body), MR_ENCODING_JSON, &err) !=
        MR_OK)
        return refuse(refusal, "invalid_request", err.detail, 0);
    const bool admitted = read_body(rules, exchange, mr_document_root(document), headers, refusal);
    mr_document_close(document);
    return admitted;
}
