/* status - the result of a function that can fail, and the sentence that says why it failed.
 *
 * One list gives each status a name, a class, and the error code that a result record carries as
 * error.code. The class says what the worker does with the record that caused it: FINE    commits
 * its offset. RETRY   keeps the offset, backs off and tries again; in a result, `retryable` is
 * true. REJECT  publishes a result with the error, then commits the offset. FATAL   drains and
 * exits with an error code; Kafka delivers the record to another worker.
 *
 * Threads: any (values only). Memory: none. */
#ifndef MR_CODEC_STATUS_H
#define MR_CODEC_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

/* X(name of the status, class, error code in a result) */
#define MR_STATUS_LIST(X)                                                                          \
    X(OK, FINE, "")                                                                                \
    X(AGAIN, RETRY, "overloaded")                                                                  \
    X(FULL, RETRY, "overloaded")                                                                   \
    X(CLOSED, RETRY, "overloaded")                                                                 \
    X(TIMEOUT, RETRY, "internal")                                                                  \
    X(MALFORMED, REJECT, "malformed")                                                              \
    X(UNSUPPORTED_ENCODING, REJECT, "unsupported_encoding")                                        \
    X(RECORD_TOO_LARGE, REJECT, "record_too_large")                                                \
    X(INVALID_REQUEST, REJECT, "invalid_request")                                                  \
    X(UNKNOWN_FIELD, REJECT, "unknown_field")                                                      \
    X(EMPTY_PROMPT, REJECT, "empty_prompt")                                                        \
    X(PROMPT_TOO_LONG, REJECT, "prompt_too_long")                                                  \
    X(INVALID_TOKEN_ID, REJECT, "invalid_token_id")                                                \
    X(MODEL_NOT_FOUND, REJECT, "model_not_found")                                                  \
    X(UNSUPPORTED, REJECT, "unsupported")                                                          \
    X(UNSUPPORTED_CONTENT, REJECT, "unsupported_content")                                          \
    X(DEADLINE_EXCEEDED, REJECT, "deadline_exceeded")                                              \
    X(CANCELLED, REJECT, "cancelled")                                                              \
    X(POISON, REJECT, "poison")                                                                    \
    X(DUPLICATE_ID, REJECT, "duplicate_id")                                                        \
    X(INTERNAL, REJECT, "internal")                                                                \
    X(BAD_FILE, FATAL, "internal")                                                                 \
    X(BAD_CONFIG, FATAL, "internal")                                                               \
    X(UNREACHABLE, FATAL, "internal")                                                              \
    X(NOMEM, FATAL, "internal")                                                                    \
    X(BACKEND, FATAL, "internal")

enum mr_status {
#define X(name, class_, code) MR_##name,
    MR_STATUS_LIST(X)
#undef X
        MR_STATUS_COUNT
};

enum mr_status_class { MR_CLASS_FINE, MR_CLASS_RETRY, MR_CLASS_REJECT, MR_CLASS_FATAL };

#define MR_ERROR_DETAIL_BYTES 200

/* Says why a function failed; filled by the function that detects the failure. */
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

/* Fills err, which may be NULL, and returns status. A failing function ends with
 *     return mr_fail(err, MR_MALFORMED, "header is %zu bytes, limit %zu", n, max); */
enum mr_status mr_fail(struct mr_error *err, enum mr_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
