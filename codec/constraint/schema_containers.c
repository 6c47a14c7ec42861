/* Lists in brackets, and arrays and objects without conditions. */
#include "codec/constraint/schema_state.h"

const struct mr_expr *mr_schema_word(struct mr_schema *schema, const char *text)
{
    return mr_expr_word(schema->builder, text);
}

const struct mr_expr *mr_schema_comma(struct mr_schema *schema)
{
    return mr_expr_pair(schema->builder, mr_schema_word(schema, ","), mr_schema_space(schema));
}

/* A list in brackets; white space may stand inside on both sides. */
const struct mr_expr *mr_schema_bracketed(struct mr_schema *schema, const char *open,
                                          const struct mr_expr *inside, const char *close)
{
    const struct mr_expr *space = mr_schema_space(schema);
    const struct mr_expr *items[5] = {mr_schema_word(schema, open), space, inside, space,
                                      mr_schema_word(schema, close)};
    return mr_expr_seq(schema->builder, items, 5);
}

const struct mr_expr *mr_schema_colon(struct mr_schema *schema)
{
    return mr_expr_either(schema->builder, mr_schema_word(schema, ":"),
                          mr_schema_word(schema, ": "));
}

/* min to max items with commas between. */
const struct mr_expr *mr_schema_separated(struct mr_schema *schema, const struct mr_expr *item,
                                          uint32_t min, uint32_t max)
{
    struct mr_expr_builder *builder = schema->builder;
    uint32_t more = max == MR_EXPR_UNBOUNDED ? max : max - 1;
    if (max == 0) return mr_expr_empty();
    const struct mr_expr *rest = mr_expr_repeat(
        builder, mr_expr_pair(builder, mr_schema_comma(schema), item), min > 0 ? min - 1 : 0, more);
    const struct mr_expr *list = mr_expr_pair(builder, item, rest);
    return min == 0 ? mr_expr_either(builder, mr_expr_empty(), list) : list;
}

/* ---- values without conditions ---- */

const struct mr_expr *mr_schema_any_object(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->object == UINT32_MAX) {
        schema->object = mr_expr_rule_add(builder, "object");
        const struct mr_expr *member[3] = {mr_schema_any_string(schema), mr_schema_colon(schema),
                                           mr_schema_any(schema)};
        mr_expr_rule_define(
            builder, schema->object,
            mr_schema_bracketed(
                schema, "{",
                mr_schema_separated(schema, mr_expr_seq(builder, member, 3), 0, MR_EXPR_UNBOUNDED),
                "}"));
    }
    return mr_expr_ref(builder, schema->object);
}

static const struct mr_expr *any_array(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->array == UINT32_MAX) {
        schema->array = mr_expr_rule_add(builder, "array");
        mr_expr_rule_define(builder, schema->array,
                            mr_schema_bracketed(schema, "[",
                                                mr_schema_separated(schema, mr_schema_any(schema),
                                                                    0, MR_EXPR_UNBOUNDED),
                                                "]"));
    }
    return mr_expr_ref(builder, schema->array);
}

const struct mr_expr *mr_schema_any(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->any == UINT32_MAX) {
        const struct mr_schema_facts free = {0};
        schema->any = mr_expr_rule_add(builder, "value");
        const struct mr_expr *items[7] = {
            mr_schema_any_object(schema),   any_array(schema),
            mr_schema_any_string(schema),   mr_schema_number(schema, &free),
            mr_schema_word(schema, "true"), mr_schema_word(schema, "false"),
            mr_schema_word(schema, "null")};
        mr_expr_rule_define(builder, schema->any, mr_expr_alt(builder, items, 7));
    }
    return mr_expr_ref(builder, schema->any);
}
