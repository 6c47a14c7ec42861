/* error - OpenAI's error object, {"error": {message, type, param, code}}, and its HTTP status, for
 * an error code of a result record (docker/guide/results.md).
 *
 * Threads: any (pure functions). Memory: the writer's; texts are borrowed. Errors: none. */
#ifndef MR_CODEC_OPENAI_ERROR_H
#define MR_CODEC_OPENAI_ERROR_H

#include "codec/status.h"
#include "codec/wire/json_writer.h"
#include "codec/wire/value.h"

struct mr_openai_error {
    int http_status; /* 400, 404, 409, 413, 429, 499 (cancelled), 500 or 504 */
    const char *type;
    struct mr_text code;    /* OpenAI's where it has one, else that of the result */
    struct mr_text message; /* one sentence */
    struct mr_text param;   /* the member that is wrong; empty: unknown */
    bool retryable;         /* sending the same request again may help */
};

/* Fills the error for a code of a result. request: body of the call, a map; zeroed: unknown. param
 * is the member of it that the message begins with. */
void mr_openai_error_of(struct mr_openai_error *error, struct mr_text code, struct mr_text message,
                        struct mr_value request);
/* Whether the result has an error; fills *error if so. */
bool mr_openai_result_failed(struct mr_value result, struct mr_value request,
                             struct mr_openai_error *error);
void mr_openai_put_error(struct mr_json_writer *writer, const struct mr_openai_error *error);

#endif
