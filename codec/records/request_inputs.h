/* request_inputs - reads the texts of a request that has several (codec/records/inputs.h).
 *
 * Threads: any. Memory: the request's arena. Errors: class REJECT, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_INPUTS_H
#define MR_CODEC_RECORDS_REQUEST_INPUTS_H

#include "codec/records/request_reader.h"

enum mr_status mr_request_read_input(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value);
enum mr_status mr_request_read_query(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value);
enum mr_status mr_request_read_top_n(struct mr_request_reader *reader, const char *field,
                                     struct mr_value value);
enum mr_status mr_request_read_return_documents(struct mr_request_reader *reader, const char *field,
                                                struct mr_value value);
enum mr_status mr_request_read_use_activation(struct mr_request_reader *reader, const char *field,
                                              struct mr_value value);
/* Call after all fields: checks that they fit the task, and makes the pairs of task rerank from
 * query and documents. has_prompt: the record has a prompt or `input`. */
enum mr_status mr_request_apply_inputs(struct mr_request_reader *reader, bool has_prompt);

#endif
