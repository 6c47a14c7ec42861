/* request_chat - the fields of a request record that only the chat template reads. Only
 * codec/records/request_fields.c, which has the table of fields, includes this.
 *
 * Owner:  one call of mr_request_decode. Memory: in the request's arena.
 * Errors: class REJECT with one sentence that names the field, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_CHAT_H
#define MR_CODEC_RECORDS_REQUEST_CHAT_H

#include "codec/records/request_lists.h"

mr_request_read mr_request_read_messages, mr_request_read_tools, mr_request_read_documents,
    mr_request_read_kwargs, mr_request_read_generation_prompt;

/* Passes reader->reasoning_effort to the chat template, together with enable_thinking (false for
 * "none"), as vLLM does. Explicit chat_template_kwargs with these names take precedence. */
enum mr_status mr_request_add_effort(struct mr_request_reader *reader);

#endif
