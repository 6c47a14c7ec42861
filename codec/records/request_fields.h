/* request_fields - the table of the fields of a request record: name, type, range, and the member
 * of struct mr_request that holds the value. Only codec/records/request_decode.c includes this.
 *
 * A new field is one row of the table; a field that is an array or a map also gets a function in
 * codec/records/request_lists.h.
 *
 * Owner:  one call of mr_request_decode. Memory: in the request's arena.
 * Errors: class REJECT with one sentence that names the field, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_FIELDS_H
#define MR_CODEC_RECORDS_REQUEST_FIELDS_H

#include "codec/records/request_reader.h"

/* Reads every member of the record except `id`. A member that is null is treated as absent. */
enum mr_status mr_request_read_fields(struct mr_request_reader *reader, struct mr_value record);

/* True if the record has prompt, prompt_token_ids or messages. */
bool mr_request_has_prompt(const struct mr_request_reader *reader);

#endif
