/* request_reader - the state of decoding one request record, and functions that the readers of all
 * fields use. Only codec/records/request_*.c include this.
 *
 * Owner:  one call of mr_request_decode. Memory: in the request's arena.
 * Errors: class REJECT with one sentence that names the field, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_READER_H
#define MR_CODEC_RECORDS_REQUEST_READER_H

#include "codec/nearest.h"
#include "codec/records/request.h"
#include "codec/status.h"
#include "codec/wire/document.h"

struct mr_request_reader {
    struct mr_request *request; /* the request being filled */
    const struct mr_document *document;
    struct mr_error *err;
    bool strict; /* reject a record that has a member with an unknown name */
    /* bit set of enum group (request_fields.c): the groups that have had a field */
    uint32_t groups_seen;
    int64_t deadline_ms, timeout_ms; /* 0: the record does not have the field */
    bool tool_choice_given;          /* the record has tool_choice */
    bool logprobs_counted;           /* logprobs is a number, not true or false */
    int64_t top_logprobs, best_of;   /* -1, 0: the record does not have the field */
    /* names of fields in the record that need task embed, task rerank, one of rerank and classify;
     * or NULL */
    const char *embed_field, *rerank_field, *head_field;
    struct mr_text reasoning_effort; /* bytes NULL: the record does not have the field */
};

/* Takes zeroed memory from the request's arena; *out is NULL unless the status is MR_OK. */
enum mr_status mr_request_take(struct mr_request_reader *reader, size_t count, size_t size,
                               void **out);
enum mr_status mr_request_copy_text(struct mr_request_reader *reader, struct mr_text text,
                                    struct mr_text *out);
/* Fails with "<field> must be <wanted>, not <kind of value>". */
enum mr_status mr_request_wrong_type(struct mr_request_reader *reader, const char *field,
                                     const char *wanted, struct mr_value value);
/* Adds a sentence to the request's warnings. It names a member that has no effect. If
 * reader->strict is set, fails with MR_UNSUPPORTED and this sentence. */
enum mr_status mr_request_warn(struct mr_request_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Counts a member with an unknown name and warns about it. MR_UNKNOWN_FIELD when reader->strict is
 * set. nearest: the most similar known name. */
enum mr_status mr_request_unknown(struct mr_request_reader *reader, struct mr_text name,
                                  struct mr_nearest nearest);

#endif
