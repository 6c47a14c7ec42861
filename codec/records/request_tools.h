/* request_tools - the fields of a request that say how tools may be called: tool_choice and
 * parallel_tool_calls as OpenAI writes them. The tools themselves are in request->chat.
 *
 * With tool_choice `required`, or a named tool, the answer is constrained to a JSON array of calls,
 * [{"name": …, "parameters": …}, …], whose parameters obey the schemas of the tools; vLLM does the
 * same. With `auto` the model is free, and its calls are found in its text (codec/tools). If a tool
 * has function.strict then, the text is free up to where a call begins, and the call obeys: it
 * names a tool, and the arguments of a strict tool obey its schema.
 *
 * Memory: the request's arena. Errors: MR_INVALID_REQUEST with the place in the request. */
#ifndef MR_CODEC_RECORDS_REQUEST_TOOLS_H
#define MR_CODEC_RECORDS_REQUEST_TOOLS_H

#include "codec/records/request_lists.h"
#include "codec/tools/tool_types.h"

mr_request_read mr_request_read_tool_choice, mr_request_read_parallel_calls;

/* Called when all fields are read: checks the tools and sets request->constraint. */
enum mr_status mr_request_check_tools(struct mr_request_reader *reader);
/* Sets request->constraint for tool_use.strict. format: in which the model writes calls.
 * MR_UNSUPPORTED for a format in which the beginning of a call cannot be told from text. */
enum mr_status mr_request_constrain_calls(struct mr_request *request, enum mr_tool_format format,
                                          struct mr_error *err);
/* Sets *out to the types of the parameters of the request's tools, which the caller frees with
 * free(); NULL when there are none, or the model writes calls in a format that does not need them.
 * Adds a warning when some do not fit into the list. MR_NOMEM. */
enum mr_status mr_request_tool_types(struct mr_request *request, struct mr_tool_types **out,
                                     struct mr_error *err);

#endif
