/* tool_calls - finds tool calls in the text of an answer (codec/tools/tool_format.h), in every
 * format except harmony (codec/tools/harmony.h).
 *
 * The text may be complete or still growing. The calls found so far depend only on its bytes, not
 * on the pieces in which they arrived, so a stream that is resumed at any byte continues
 * identically. A call is reported at its last byte, or where later text proves that it has ended,
 * and is never withdrawn. An incomplete call stays text. Calls after the first count_max stay text
 * too; markers after these are still removed.
 *
 * Work: linear in the text, except that JSON may be read repeatedly: at most MR_TOOL_WORK_MAX bytes
 * for an answer.
 * Threads: any (pure functions). Memory: the caller's arena; the texts of a call point into it or
 *          into `text` and are valid until the next call of _find with another text.
 * Errors: MR_NOMEM if the arena is full; the caller may repeat the call. */
#ifndef MR_CODEC_TOOLS_TOOL_CALLS_H
#define MR_CODEC_TOOLS_TOOL_CALLS_H

#include "codec/status.h"
#include "codec/tools/tool_list.h"

/* Finds the calls in text, which must begin with the text of the previous call. ended: the text is
 * complete. */
enum mr_status mr_tool_calls_find(struct mr_tool_calls *found, struct mr_text text, bool ended,
                                  struct mr_error *err);

#endif
