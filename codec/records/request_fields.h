/* request_fields - the table of the request record's fields: name, type, range, where the value
 * goes. Private to codec/records/request.c.
 *
 * Owner:  one decoding at a time. Memory: into the request's arena. Errors: class REJECT with one
 * sentence naming the field, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_FIELDS_H
#define MR_CODEC_RECORDS_REQUEST_FIELDS_H

#include "codec/records/request.h"
#include "codec/wire/document.h"

/* One decoding. */
struct mr_request_reader {
    struct mr_request *request;
    const struct mr_request_context *context;
    const struct mr_document *document;
    struct mr_error *err;
    uint32_t groups_seen;            /* bit of enum group: fields that exclude one another */
    int64_t deadline_ms, timeout_ms; /* 0 not given */
};

/* Reads every member of the record but `id`. A member that is null counts as absent. */
enum mr_status mr_request_read_fields(struct mr_request_reader *reader, struct mr_value record);

/* True when exactly one of prompt, prompt_token_ids and messages was there. */
bool mr_request_has_prompt(const struct mr_request_reader *reader);

/* ---- pieces shared by the two files of the table ---- */

/* Zeroed memory of the request; *out is NULL only with a status. */
enum mr_status mr_request_take(struct mr_request_reader *reader, size_t count, size_t size,
                               void **out);
enum mr_status mr_request_copy_text(struct mr_request_reader *reader, struct mr_text text,
                                    struct mr_text *out);
/* "<field> must be <wanted>, not <what it is>". */
enum mr_status mr_request_wrong_type(struct mr_request_reader *reader, const char *field,
                                     const char *wanted, struct mr_value value);
/* A member nobody knows: counted, or MR_UNKNOWN_FIELD when the topic is strict. */
enum mr_status mr_request_unknown(struct mr_request_reader *reader, struct mr_text name);

/* Fields that are more than one number (codec/records/request_lists.c). */
typedef enum mr_status mr_request_read(struct mr_request_reader *reader, const char *field,
                                       struct mr_value value);
mr_request_read mr_request_read_prompt, mr_request_read_prompt_ids, mr_request_read_messages,
    mr_request_read_kwargs, mr_request_read_stop, mr_request_read_stop_ids,
    mr_request_read_logit_bias, mr_request_read_allowed_ids, mr_request_read_bad_words,
    mr_request_read_cache, mr_request_read_response_format, mr_request_read_metadata;

#endif
