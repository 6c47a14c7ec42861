/* status - the result of a function that can fail, and the sentence with the reason of a failure.
 *
 * One list gives each status a name, a class, and the error code that a result record carries as
 * error.code. The class determines how the worker handles the record that caused it:
 *   FINE    commits its offset.
 *   RETRY   keeps the offset, backs off and tries again.
 *   REJECT  publishes a result with the error, then commits the offset.
 *   FATAL   drains and exits with an error code; Kafka delivers the record to another worker.
 *
 * Threads: any (values only). Memory: none. */
#ifndef MR_CODEC_STATUS_H
#define MR_CODEC_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

/* X(name of the status, class, error code in a result, whether sending the record again can help:
 * equal for all statuses of one code) */
#define MR_STATUS_LIST(X)                                                                          \
    X(OK, FINE, "", false)                                                                         \
    X(AGAIN, RETRY, "overloaded", true)                                                            \
    X(FULL, RETRY, "overloaded", true)                                                             \
    X(CLOSED, RETRY, "overloaded", true)                                                           \
    X(TIMEOUT, RETRY, "internal", true)                                                            \
    X(MALFORMED, REJECT, "malformed", false)                                                       \
    X(UNSUPPORTED_ENCODING, REJECT, "unsupported_encoding", false)                                 \
    X(RECORD_TOO_LARGE, REJECT, "record_too_large", false)                                         \
    X(INVALID_REQUEST, REJECT, "invalid_request", false)                                           \
    X(UNKNOWN_FIELD, REJECT, "unknown_field", false)                                               \
    X(EMPTY_PROMPT, REJECT, "empty_prompt", false)                                                 \
    X(PROMPT_TOO_LONG, REJECT, "prompt_too_long", false)                                           \
    X(INVALID_TOKEN_ID, REJECT, "invalid_token_id", false)                                         \
    X(MODEL_NOT_FOUND, REJECT, "model_not_found", false)                                           \
    X(UNSUPPORTED, REJECT, "unsupported", false)                                                   \
    X(UNSUPPORTED_CONTENT, REJECT, "unsupported_content", false)                                   \
    X(DEADLINE_EXCEEDED, REJECT, "deadline_exceeded", true)                                        \
    X(CANCELLED, REJECT, "cancelled", false)                                                       \
    X(POISON, REJECT, "poison", false)                                                             \
    X(DUPLICATE_ID, REJECT, "duplicate_id", false)                                                 \
    X(INTERNAL, REJECT, "internal", true)                                                          \
    X(BAD_FILE, FATAL, "internal", true)                                                           \
    X(BAD_CONFIG, FATAL, "internal", true)                                                         \
    X(UNREACHABLE, FATAL, "internal", true)                                                        \
    X(NOMEM, FATAL, "internal", true)                                                              \
    X(BACKEND, FATAL, "internal", true)

enum mr_status {
#define X(name, class_, code, retryable) MR_##name,
    MR_STATUS_LIST(X)
#undef X
        MR_STATUS_COUNT
};

enum mr_status_class { MR_CLASS_FINE, MR_CLASS_RETRY, MR_CLASS_REJECT, MR_CLASS_FATAL };

#define MR_ERROR_DETAIL_BYTES 200

/* The reason why a function failed; filled by the function that detects the failure. */
struct mr_error {
    enum mr_status status;
    /* one sentence, without text of requests and without secrets */
    char detail[MR_ERROR_DETAIL_BYTES];
};

/* The status's name for logs, without MR_: "OK", "FULL". Static string. */
const char *mr_status_name(enum mr_status status);

enum mr_status_class mr_status_class(enum mr_status status);

/* The error.code of a result record for this status; "" for MR_OK. Static string. */
const char *mr_status_code(enum mr_status status);
/* Whether a producer that sends the record again, with a new deadline if it has one, may get
 * another answer: the field error.retryable of a result. */
bool mr_status_is_retryable(enum mr_status status);

/* Fills err, which may be NULL, and returns status. A failing function ends with
 *     return mr_fail(err, MR_MALFORMED, "header is %zu bytes, limit %zu", n, max); */
enum mr_status mr_fail(struct mr_error *err, enum mr_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
