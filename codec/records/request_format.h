/* request_format - the fields of a request that constrain the answer: response_format of OpenAI's
 * API, and structured_outputs and guided_* of vLLM. They set request->constraint, which intake
 * compiles (codec/constraint/constraint.h). A request has at most one of them.
 *
 * A schema is converted to JSON text, also from a msgpack record. The field may also be a text that
 * contains the JSON.
 *
 * Memory: the request's arena. Errors: MR_INVALID_REQUEST with the field's name; MR_UNSUPPORTED for
 *         settings of vLLM that would change the answer. */
#ifndef MR_CODEC_RECORDS_REQUEST_FORMAT_H
#define MR_CODEC_RECORDS_REQUEST_FORMAT_H

#include "codec/records/request_lists.h"

mr_request_read mr_request_read_response_format, mr_request_read_structured_outputs,
    mr_request_read_guided;

#endif
