/* tool_tags - reads the calls of Qwen3-Coder. Only codec/tools includes this.
 *
 *     <tool_call>
 *     <function=NAME>
 *     <parameter=KEY>
 *     VALUE
 *     </parameter>
 *     </function>
 *     </tool_call>
 *
 * NAME has no white space and none of < > { } " '. White space may stand between tags. Some answers
 * leave out tags, so a value, which is written as it is, ends
 *   - at </parameter>, when <parameter=KEY>, </function> or the call's own </tool_call> follows;
 *   - at <parameter=KEY> at the start of a line or of the value;
 *   - with the call at </function>, when </tool_call>, <tool_call>, <function= or nothing follows;
 *   - with the call at its own </tool_call> at the start of a line, when <tool_call> or nothing
 *     follows.
 * Its own </tool_call> is that of a call that began with <tool_call>. One that did not is none when
 * a line of a value begins with <tool_call> and <function=: that is a call. Any other tag is part
 * of the value. One line end on either side of a value does not belong to it. Of two values with
 * one key the last counts. A call that is cut off is none.
 *
 * </function> may be left out before the call's own </tool_call>; text without tags before the
 * first parameter is skipped if the call began with <tool_call>.
 *
 * The schema of the tool says what a value is (codec/tools/tool_types.h); what does not fit is a
 * text. README.md says where vLLM reads other calls or values.
 *
 * The text is read once: what begins as a call and proves to be none is text up to the place that
 * proves it, and is not searched for other calls. What follows a tag may be read twice, for the end
 * of a call and as what it begins.
 *
 * Work: linear in the text, but for a name that comes in pieces, of which each piece reads it
 * again; log n for a value to find its type. Threads: any. Memory: JSON goes to the arena only when
 * the call is complete: at most MR_TOOL_ARGUMENTS_BYTES_MAX a call. Errors: NOMEM; the same _read
 * may be tried again. */
#ifndef MR_CODEC_TOOLS_TOOL_TAGS_H
#define MR_CODEC_TOOLS_TOOL_TAGS_H

#include "codec/tools/tool_cursor.h"

/* Reads on from cursor->found->from. FOUND: the text up to cursor->at belongs to a call, which is
 * added if it is new. BAD: the text up to there is none. MORE: no decision yet. */
enum mr_tool_outcome mr_tool_read_tags(struct mr_tool_cursor *cursor);

#endif
