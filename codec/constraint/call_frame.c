#include "codec/constraint/call_frame.h"

#include "codec/constraint/regex_front.h"
#include "codec/constraint/schema.h"

#define ITEMS(...)                                                                                 \
    (const struct mr_expr *const[])                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* <tool_call>CALL</tool_call>, at most `most` times, with text around that contains no opening tag.
 */
static const struct mr_expr *between_tags(struct mr_expr_builder *builder,
                                          const struct mr_expr *call, uint32_t most)
{
    const struct mr_expr *open = mr_expr_word(builder, "<tool_call>");
    const struct mr_expr *free_text = mr_regex_text_without(builder, open);
    const struct mr_expr *line =
        mr_expr_either(builder, mr_expr_empty(), mr_expr_word(builder, "\n"));
    const struct mr_expr *close = mr_expr_word(builder, "</tool_call>");
    const struct mr_expr *tagged =
        mr_expr_seq(builder, ITEMS(open, line, call, line, close, free_text), 6);
    return mr_expr_pair(builder, free_text, mr_expr_repeat(builder, tagged, 0, most));
}

/* CALL; CALL; … or a text that does not begin as a call does. */
static const struct mr_expr *whole_answer(struct mr_expr_builder *builder,
                                          const struct mr_expr *call, uint32_t most)
{
    static const struct mr_char_range spaces[] = {{'\t', '\r'}, {' ', ' '}};
    const struct mr_expr *space = mr_expr_class(builder, spaces, 2, MR_SPELL_TEXT);
    const struct mr_expr *begin = mr_expr_either(builder, mr_expr_word(builder, "{"),
                                                 mr_expr_word(builder, "<|python_tag|>"));
    const struct mr_expr *any = mr_regex_any_text(builder);
    const struct mr_expr *gap = mr_expr_repeat(builder, space, 0, MR_EXPR_UNBOUNDED);
    const struct mr_expr *like_call = mr_expr_seq(builder, ITEMS(gap, begin, any), 3);
    const struct mr_expr *more = mr_expr_pair(builder, mr_expr_word(builder, "; "), call);
    uint32_t more_max = most == MR_EXPR_UNBOUNDED ? most : most - 1;
    const struct mr_expr *calls =
        mr_expr_pair(builder, call, mr_expr_repeat(builder, more, 0, more_max));
    return mr_expr_either(builder, mr_expr_minus(builder, any, like_call), calls);
}

void mr_call_frame_define(struct mr_expr_builder *builder, struct mr_text schema,
                          enum mr_call_frame frame, bool single, struct mr_json **document)
{
    uint32_t rule = mr_expr_rule_add(builder, "tool call");
    uint32_t most = single ? 1 : MR_EXPR_UNBOUNDED;
    mr_schema_define(builder, rule, schema, document);
    if (builder->status != MR_OK) return;
    const struct mr_expr *call = mr_expr_ref(builder, rule);
    mr_expr_rule_define(builder, 0,
                        frame == MR_FRAME_TAGS ? between_tags(builder, call, most)
                                               : whole_answer(builder, call, most));
}
