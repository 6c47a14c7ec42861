/* request_tools - the fields of a request that control tool calls: tool_choice and
 * parallel_tool_calls of OpenAI's API. The tools themselves are in request->chat.
 *
 * With tool_choice `required`, or a named tool, the answer is constrained to a JSON array of calls,
 * [{"name": …, "parameters": …}, …], whose parameters obey the schemas of the tools, as in vLLM.
 * With `auto` the answer is free, and codec/tools finds the calls in its text. If a tool has
 * function.strict with `auto`, the text is free up to the start of a call. The call must then name
 * a tool, and the arguments of a strict tool must obey its schema.
 *
 * Memory: the request's arena. Errors: MR_INVALID_REQUEST with the place in the request. */
#ifndef MR_CODEC_RECORDS_REQUEST_TOOLS_H
#define MR_CODEC_RECORDS_REQUEST_TOOLS_H

#include "codec/records/request_lists.h"
#include "codec/tools/tool_types.h"

mr_request_read mr_request_read_tool_choice, mr_request_read_parallel_calls;

/* Checks the tools and sets request->constraint. Call it after all fields have been read. */
enum mr_status mr_request_apply_tools(struct mr_request_reader *reader);
/* Sets request->constraint for tool_use.strict. format: how the model writes calls. MR_UNSUPPORTED
 * for a format in which a call begins like ordinary text. */
enum mr_status mr_request_constrain_calls(struct mr_request *request, enum mr_tool_format format,
                                          struct mr_error *err);
/* Sets *out to the types of the parameters of the request's tools; the caller frees it with free().
 * *out is NULL if there are no types or the model's format does not need them. Adds a warning if
 * some types do not fit into the list. MR_NOMEM. */
enum mr_status mr_request_tool_types(struct mr_request *request, struct mr_tool_types **out,
                                     struct mr_error *err);

#endif
