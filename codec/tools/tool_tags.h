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
 *     follows. Only a call that began with <tool_call> has its own </tool_call>. If a call began
 * without it and a line of a value begins with <tool_call> and <function=, then that line begins
 * the call and the earlier text is not a call. Any other tag is part of the value. One line end on
 * either side of a value does not belong to it. If a key is repeated, its last value is used. A
 * call that is cut off stays text.
 *
 * </function> may be left out before the call's own </tool_call>; text without tags before the
 * first parameter is skipped if the call began with <tool_call>.
 *
 * The schema of the tool gives the type of a value (codec/tools/tool_types.h); a value that does
 * not fit its type is a text. README.md lists the differences from vLLM.
 *
 * The text is read once. If a beginning turns out not to be a call, it is text up to the byte that
 * shows this, and that part is not searched for other calls. The bytes after a tag may be read
 * twice: to decide the end of a call, and as the start of the next item.
 *
 * Work: linear in the text, except that each piece of an unfinished name reads that name again; log
 * n to find the type of a value. Threads: any. Memory: the arena gets the JSON of complete calls
 * only, at most MR_TOOL_ARGUMENTS_BYTES_MAX for each. Errors: NOMEM; the caller may repeat the
 * call. */
#ifndef MR_CODEC_TOOLS_TOOL_TAGS_H
#define MR_CODEC_TOOLS_TOOL_TAGS_H

#include "codec/tools/tool_cursor.h"

/* Continues at cursor->found->from. FOUND: the text up to cursor->at belongs to a call, which is
 * added if it is new. BAD: the text up to there is not a call. MORE: no decision yet. */
enum mr_tool_outcome mr_tool_read_tags(struct mr_tool_cursor *cursor);

#endif
