/* call_frame - answers in which calls of tools obey a schema and the rest is free.
 *
 * The schema is that of one call. The frame says where a call begins: behind a tag, or with the
 * answer itself. Free text is any text in which no call begins.
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

/* Defines rule 0, which must exist. schema: of one call; single: there is at most one. document: as
 * mr_schema_define sets it. */
void mr_call_frame_define(struct mr_expr_builder *builder, struct mr_text schema,
                          enum mr_call_frame frame, bool single, struct mr_json **document);

#endif
