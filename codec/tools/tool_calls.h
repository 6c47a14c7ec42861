/* tool_calls - finds the calls of tools in the text of an answer (codec/tools/tool_format.h).
 *
 * The text may be whole, or the beginning of one that grows: a call is found when it is complete,
 * and the calls found in the parts of a text are those found in the whole. What is no complete call
 * stays text.
 *
 * Work: linear in the text. While a call is not complete, it is read again each time that it has
 *       grown by a sixteenth; so a stream has a call at most that much later than it is complete.
 *       At most MR_TOOL_WORK_MAX bytes of objects are read for one answer.
 * Threads: any (pure functions). Memory: the caller's arena; texts point into it or into `text`.
 * Errors: MR_NOMEM when the arena has no room. */
#ifndef MR_CODEC_TOOLS_TOOL_CALLS_H
#define MR_CODEC_TOOLS_TOOL_CALLS_H

#include "codec/status.h"
#include "codec/tools/tool_list.h"

/* Finds the calls in text, which begins with the text of the call before. ended: nothing follows.
 */
enum mr_status mr_tool_calls_find(struct mr_tool_calls *found, struct mr_text text, bool ended,
                                  struct mr_error *err);
/* The text without the calls, and without white space at its ends; in the arena. bytes NULL: no
 * memory. */
struct mr_text mr_tool_calls_rest(const struct mr_tool_calls *found, struct mr_text text);

#endif
