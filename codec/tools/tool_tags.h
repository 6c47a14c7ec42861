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
 * Some answers leave out the tags around the function, or </parameter>. White space may stand
 * between tags. A value is written as it is; one line end on either side does not belong to it.
 * The schema of the tool says what it is (codec/tools/tool_types.h), as for vLLM's parser
 * qwen3_coder, except that a value which does not fit its type stays a text. Of two values with one
 * key the last counts. A call that is cut off is none.
 *
 * The text is read once, byte for byte: what begins as a call and proves to be none is text up to
 * the place that proves it, and is not searched for other calls.
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
