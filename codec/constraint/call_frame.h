/* call_frame - the grammar of an answer that is free text with tool calls, in which every call
 * obeys a schema.
 *
 * The schema describes one call. The frame says where a call may begin: after a tag, or at the
 * start of the answer. The text around calls is any text that does not begin a call.
 *
 * Threads: any. Memory: the builder's. Errors: those of mr_schema_define, as the builder's sticky
 * status. */
#ifndef MR_CODEC_CONSTRAINT_CALL_FRAME_H
#define MR_CODEC_CONSTRAINT_CALL_FRAME_H

#include "codec/grammar/expr.h"
#include "codec/wire/json.h"

enum mr_call_frame {
    MR_FRAME_TAGS, /* calls stand between <tool_call> and </tool_call> */
    MR_FRAME_WHOLE /* an answer that begins with { is calls, with "; " between */
};

/* Defines rule 0, which must exist. schema: the schema of one call. single: the answer has at most
 * one call. *document: set as by mr_schema_define. */
void mr_call_frame_define(struct mr_expr_builder *builder, struct mr_text schema,
                          enum mr_call_frame frame, bool single, struct mr_json **document);

#endif
