/* tool_calls - finds the calls of tools in the text of an answer (codec/tools/tool_format.h), in
 * every format but harmony (codec/tools/harmony.h).
 *
 * The text may be whole, or the beginning of one that grows: what is found in a beginning depends
 * on its bytes only, not on the pieces in which it came, so that a stream which is resumed at any
 * byte goes on as it was. A call is found at its last byte, or where what follows proves
 * that to be its end, and is never taken back. What is no complete call stays text; so do calls
 * behind the first count_max, but not the markers behind it.
 *
 * Work: linear in the text; where JSON is read again, at most MR_TOOL_WORK_MAX bytes of an answer.
 * Threads: any (pure functions). Memory: the caller's arena; the texts of a call point into it or
 *          into `text` and are valid until the next call of _find with another text.
 * Errors: MR_NOMEM when the arena has no room; the same _find may be tried again. */
#ifndef MR_CODEC_TOOLS_TOOL_CALLS_H
#define MR_CODEC_TOOLS_TOOL_CALLS_H

#include "codec/status.h"
#include "codec/tools/tool_list.h"

/* Finds the calls in text, which begins with the text of the call before. ended: nothing follows.
 */
enum mr_status mr_tool_calls_find(struct mr_tool_calls *found, struct mr_text text, bool ended,
                                  struct mr_error *err);

#endif
