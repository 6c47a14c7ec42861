#include "worker/gateway/respond.h"

#include "codec/limits.h"
#include "codec/openai/copy.h"
#include "codec/openai/response.h"
#include "codec/openai/stream.h"
#include "codec/wire/document.h"
#include "worker/base/clock.h"

#include <stdlib.h>
#include <string.h>

#define COMMENT_NS ((uint64_t)10000000000)

static const char comment[] = ": waiting\n\n";

char *mr_respond_error_text(const struct mr_openai_error *error, size_t *length)
{
    struct mr_json_writer writer;
    char *text = NULL;
    mr_json_writer_init(&writer, (size_t)1 << 20);
    mr_openai_put_error(&writer, error);
    *length = 0;
    (void)mr_json_writer_take(&writer, &text, length, NULL);
    return text;
}

/* ---- responses that are not streams ---- */

static void answer(struct mr_link *link, struct mr_exchange *exchange, unsigned status, char *text,
                   size_t length)
{
    pthread_mutex_lock(&link->exchanges->lock);
    mr_exchange_answer(link->exchanges, exchange, text ? status : 500, text, length);
    mr_exchange_rouse(&link->resumes, exchange);
    pthread_mutex_unlock(&link->exchanges->lock);
}

static void answer_error(struct mr_link *link, struct mr_exchange *exchange,
                         const struct mr_openai_error *error)
{
    size_t length;
    char *text = mr_respond_error_text(error, &length);
    exchange->no_retry = error->http_status == 409 || error->http_status == 504;
    answer(link, exchange, (unsigned)error->http_status, text, length);
}

static void answer_result(struct mr_link *link, struct mr_exchange *exchange,
                          struct mr_value request, struct mr_value result)
{
    const struct mr_openai_answer parts = {.endpoint = exchange->endpoint,
                                           .id = {exchange->id, strlen(exchange->id)},
                                           .created_s = exchange->created_s,
                                           .request = request,
                                           .result = result};
    struct mr_json_writer writer;
    char *text = NULL;
    size_t length = 0;
    mr_json_writer_init(&writer, MR_EXCHANGE_REPLY_BYTES);
    mr_openai_put_response(&writer, &parts);
    (void)mr_json_writer_take(&writer, &text, &length, NULL);
    answer(link, exchange, 200, text, length);
}

/* ---- streams ---- */

/* Makes the stream and its first events in the scratch buffer, unless it has begun. */
static bool begin(struct mr_link *link, struct mr_exchange *exchange, struct mr_value request)
{
    mr_buffer_clear(&link->scratch);
    if (exchange->stream) return true;
    const struct mr_openai_stream_options options = {
        .endpoint = exchange->endpoint,
        .id = {exchange->id, strlen(exchange->id)},
        .model = {exchange->model, strlen(exchange->model)},
        .created_s = exchange->created_s,
        .choice_count = exchange->choice_count,
        .usage = exchange->has_usage_chunk};
    return mr_openai_stream_create(&exchange->stream, &options, NULL) == MR_OK &&
           mr_openai_stream_begin(exchange->stream, request, &link->scratch);
}

/* Ends a stream whose reader is too slow, or for which there is no memory. */
static void cut(struct mr_link *link, struct mr_exchange *exchange, struct mr_value request)
{
    static const char message[] = "the stream was ended because it was read too slowly";
    struct mr_openai_error error;
    mr_gateway_count(link->counts, MR_GATEWAY_SLOW, 1);
    mr_openai_error_of(&error, (struct mr_text){"overloaded", 10},
                       (struct mr_text){message, sizeof message - 1}, request);
    mr_buffer_clear(&link->scratch);
    if (exchange->stream)
        (void)mr_openai_stream_fail(exchange->stream, request, &error, &link->scratch);
    pthread_mutex_lock(&link->exchanges->lock);
    mr_exchange_end(link->exchanges, exchange, mr_buffer_text(&link->scratch));
    exchange->is_begun = true;
    exchange->status = 200;
    mr_exchange_rouse(&link->resumes, exchange);
    pthread_mutex_unlock(&link->exchanges->lock);
}

/* Moves the scratch buffer to the exchange. False: its reader is too slow. */
static bool send(struct mr_link *link, struct mr_exchange *exchange, bool ends)
{
    const struct mr_text text = mr_buffer_text(&link->scratch);
    if (text.length == 0 && !ends) return true;
    pthread_mutex_lock(&link->exchanges->lock);
    const bool fits = mr_exchange_append(link->exchanges, exchange, text);
    if (fits) {
        exchange->is_begun = true;
        exchange->status = 200;
        exchange->is_done = ends;
        exchange->comment_ns = mr_clock_ns() + COMMENT_NS;
        mr_exchange_rouse(&link->resumes, exchange);
    }
    pthread_mutex_unlock(&link->exchanges->lock);
    return fits;
}

bool mr_respond_tokens(struct mr_link *link, struct mr_exchange *exchange, struct mr_value record,
                       bool *is_cut)
{
    struct mr_document *body = NULL;
    *is_cut = false;
    if (!exchange->is_stream) return true;
    if (mr_document_open(&body, mr_buffer_text(&exchange->body), MR_ENCODING_JSON, NULL) != MR_OK)
        return true;
    const struct mr_value request = mr_document_root(body);
    *is_cut = !(begin(link, exchange, request) &&
                mr_openai_stream_tokens(exchange->stream, record, &link->scratch) &&
                send(link, exchange, false));
    if (*is_cut) cut(link, exchange, request);
    mr_document_close(body);
    return !*is_cut;
}

bool mr_respond_comment(struct mr_link *link, struct mr_exchange *exchange, bool *is_cut)
{
    struct mr_document *body = NULL;
    *is_cut = false;
    if (mr_document_open(&body, mr_buffer_text(&exchange->body), MR_ENCODING_JSON, NULL) != MR_OK)
        return true;
    const struct mr_value request = mr_document_root(body);
    *is_cut = !(begin(link, exchange, request) &&
                mr_buffer_append(&link->scratch, (struct mr_text){comment, sizeof comment - 1}) &&
                send(link, exchange, false));
    if (*is_cut) cut(link, exchange, request);
    mr_document_close(body);
    return !*is_cut;
}

static bool is_begun(struct mr_link *link, struct mr_exchange *exchange)
{
    pthread_mutex_lock(&link->exchanges->lock);
    const bool begun = exchange->is_begun;
    pthread_mutex_unlock(&link->exchanges->lock);
    return begun;
}

/* ---- the end ---- */

bool mr_respond_result(struct mr_link *link, struct mr_exchange *exchange, struct mr_value result)
{
    struct mr_document *body = NULL;
    struct mr_openai_error error;
    if (mr_document_open(&body, mr_buffer_text(&exchange->body), MR_ENCODING_JSON, NULL) != MR_OK)
        return mr_respond_error(link, exchange, "internal", "no memory for the answer", 0);
    const struct mr_value request = mr_document_root(body);
    const bool failed = mr_openai_result_failed(result, request, &error);
    if (failed && !(exchange->is_stream && is_begun(link, exchange))) {
        answer_error(link, exchange, &error);
    } else if (!exchange->is_stream) {
        answer_result(link, exchange, request, result);
    } else {
        const bool fits =
            begin(link, exchange, request) &&
            mr_openai_stream_result(exchange->stream, request, result, &link->scratch) &&
            send(link, exchange, true);
        if (!fits) cut(link, exchange, request);
    }
    mr_document_close(body);
    return false;
}

bool mr_respond_error(struct mr_link *link, struct mr_exchange *exchange, const char *code,
                      const char *message, int http_status)
{
    struct mr_document *body = NULL;
    struct mr_openai_error error;
    if (mr_document_open(&body, mr_buffer_text(&exchange->body), MR_ENCODING_JSON, NULL) != MR_OK) {
        answer(link, exchange, 500, NULL, 0);
        return false;
    }
    const struct mr_value request = mr_document_root(body);
    mr_openai_error_of(&error, (struct mr_text){code, strlen(code)},
                       (struct mr_text){message, strlen(message)}, request);
    error.param = (struct mr_text){0};
    if (http_status > 0) error.http_status = http_status;
    if (exchange->is_stream && is_begun(link, exchange)) {
        const bool fits =
            begin(link, exchange, request) &&
            mr_openai_stream_fail(exchange->stream, request, &error, &link->scratch) &&
            send(link, exchange, true);
        if (!fits) cut(link, exchange, request);
    } else {
        answer_error(link, exchange, &error);
    }
    mr_document_close(body);
    return false;
}
