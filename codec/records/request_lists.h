/* request_lists - the fields of a request record that are texts, arrays and maps. Only
 * codec/records/request_fields.c, which has the table of fields, includes this.
 *
 * Owner:  one call of mr_request_decode. Memory: in the request's arena.
 * Errors: class REJECT with one sentence that names the field, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_LISTS_H
#define MR_CODEC_RECORDS_REQUEST_LISTS_H

#include "codec/records/request_reader.h"

/* A function that reads one field into the request. */
typedef enum mr_status mr_request_read(struct mr_request_reader *reader, const char *field,
                                       struct mr_value value);
mr_request_read mr_request_read_prompt, mr_request_read_prompt_ids, mr_request_read_logit_bias,
    mr_request_read_allowed_ids, mr_request_read_cache, mr_request_read_metadata,
    mr_request_read_continuations;

/* Reads an array of at most count_max token ids. */
enum mr_status mr_request_read_ids(struct mr_request_reader *reader, const char *field,
                                   struct mr_value value, size_t count_max, const uint32_t **ids,
                                   size_t *count);
/* Reads one text or an array of at most count_max texts, each of 1 to MR_STOP_BYTES_MAX bytes. */
enum mr_status mr_request_read_texts(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value, size_t count_max,
                                     const struct mr_text **texts, size_t *count);

#endif
