/* Arrays. Items that satisfy `contains` come first, after those of prefixItems. */
#include "codec/constraint/schema_state.h"

/* The least number of items that satisfy `contains` of a node. */
static size_t contained(const struct mr_json_value *node)
{
    double number = 1;
    if (!mr_json_get(node, "contains")) return 0;
    mr_json_number(mr_json_get(node, "minContains"), &number);
    return number >= 0 && number < 1000 ? (size_t)number : 1000;
}

/* The schema of item `index` that a node names: of prefixItems or the older array `items`, or of
 * the items after these. */
static const struct mr_json_value *item_schema(const struct mr_json_value *node, size_t index)
{
    const struct mr_json_value *prefix = mr_json_get(node, "prefixItems");
    const struct mr_json_value *items = mr_json_get(node, "items");
    const bool older = items && mr_json_kind(items) == MR_JSON_ARRAY;
    const struct mr_json_value *at = mr_json_at(older ? items : prefix, index);
    return at ? at : older ? mr_json_get(node, "additionalItems") : items;
}

/* Sets *item to what item `index` has to satisfy under all nodes. The first items after `prefix`
 * satisfy `contains`; the nodes take turns. True if a node has a schema for this item. */
static bool find_item(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                      size_t index, size_t prefix, struct mr_conjunction *item)
{
    bool speaks[MR_CONJUNCTION_MAX] = {false}, named = false;
    size_t turn = prefix;
    *item = (struct mr_conjunction){.count = 0};
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        const struct mr_json_value *at = item_schema(node, index);
        if (at) mr_conjunction_add(schema, item, at, UINT32_MAX);
        named |= speaks[i] = at != NULL;
        const struct mr_json_value *contains = mr_json_get(node, "contains");
        if (!contains) continue;
        const bool mine = index >= turn && index - turn < contained(node);
        turn += contained(node);
        if (mine)
            mr_conjunction_add(schema, item, contains, UINT32_MAX);
        else if (mr_json_get(node, "maxContains"))
            mr_conjunction_deny(schema, item, contains);
        named |= mine;
        speaks[i] |= mine;
    }
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if ((mr_condition_is(at, "items") && at->name.length == index) ||
            mr_condition_is(at, "contains"))
            mr_conjunction_deny(schema, item, at->value);
    }
    mr_conjunction_add_unevaluated(schema, conjunction, "unevaluatedItems", speaks, item);
    return named;
}

/* The items that are written out one by one. *least: the fewest that an array must have. */
static size_t prefix_length(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                            size_t *first_contained, size_t *least)
{
    size_t length = 0, more = 0, last = 0;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        const struct mr_json_value *prefix = mr_json_get(node, "prefixItems");
        const struct mr_json_value *items = mr_json_get(node, "items");
        double most;
        if (prefix && mr_json_kind(prefix) != MR_JSON_ARRAY)
            mr_schema_fail(schema, MR_INVALID_REQUEST, node, "prefixItems", "must be an array");
        if (items && mr_json_kind(items) == MR_JSON_ARRAY) prefix = items;
        if (mr_json_count(prefix) > length) length = mr_json_count(prefix);
        more += contained(node);
        if (mr_json_number(mr_json_get(node, "maxContains"), &most) &&
            most < (double)contained(node))
            last = UINT32_MAX; /* no array is that long */
    }
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if (mr_condition_is(at, "items") && at->name.length >= last) last = at->name.length + 1;
    }
    *first_contained = length;
    *least = more > 0 ? length + more : 0;
    if (last > *least) *least = last;
    if (*least > length) length = *least;
    if (length > 128 && last < UINT32_MAX)
        mr_schema_fail(schema, MR_UNSUPPORTED, conjunction->nodes[0], NULL,
                       "more than 128 items have schemas of their own");
    return length;
}

/* The items after the prefix, each with a comma before it. */
static const struct mr_expr *more_items(struct mr_schema *schema, const struct mr_expr *item,
                                        size_t prefix, const struct mr_schema_facts *facts)
{
    uint32_t length = (uint32_t)prefix;
    uint32_t min = facts->items_min > length ? facts->items_min - length : 0;
    uint32_t max = facts->items_max == MR_EXPR_UNBOUNDED ? MR_EXPR_UNBOUNDED
                   : facts->items_max > length           ? facts->items_max - length
                                                         : 0;
    return mr_expr_repeat(schema->builder,
                          mr_expr_pair(schema->builder, mr_schema_comma(schema), item), min, max);
}

/* Writes the only text of an expression to out[64]. False if it has several or a longer one. */
static bool fixed_text(const struct mr_expr *expr, char out[64], size_t *length)
{
    bool fixed = expr->kind == MR_EXPR_BYTES || expr->kind == MR_EXPR_SEQ;
    for (uint32_t i = 0; fixed && expr->kind == MR_EXPR_SEQ && i < expr->count; i++)
        fixed = fixed_text(expr->items[i], out, length);
    if (!fixed || expr->kind == MR_EXPR_SEQ) return fixed;
    for (size_t i = 0; i < expr->bytes.length; i++) {
        if (*length == 64) return false;
        out[(*length)++] = expr->bytes.bytes[i];
    }
    return true;
}

/* True if the texts of two constants are the same value. */
static bool same_value(struct mr_text one, struct mr_text other)
{
    struct mr_decimal a, b;
    if (one.bytes[0] == '"' || other.bytes[0] == '"') return mr_text_equal(one, other);
    if (!mr_decimal_read(&a, one) || !mr_decimal_read(&b, other)) return mr_text_equal(one, other);
    return mr_decimal_compare(&a, &b) == 0;
}

/* Different items: each of the constants at most once, in the order of the schema. NULL if the
 * items are not constants. */
static const struct mr_expr *unique_items(struct mr_schema *schema,
                                          const struct mr_conjunction *item,
                                          const struct mr_schema_facts *limits)
{
    struct mr_expr_builder *builder = schema->builder;
    const struct mr_expr *all = schema->body(schema, item);
    const uint32_t count = all->kind == MR_EXPR_ALT ? all->count : 1;
    const struct mr_expr **members = mr_expr_take(builder, count + 3u, sizeof *members);
    bool *optional = mr_expr_take(builder, count, sizeof *optional);
    char(*texts)[64] = mr_expr_take(builder, count, sizeof *texts);
    struct mr_text *values = mr_expr_take(builder, count, sizeof *values);
    uint32_t kept = 0;
    if (!members || !optional || !texts || !values) return mr_expr_never();
    for (uint32_t i = 0; i < count; i++) {
        members[kept] = all->kind == MR_EXPR_ALT ? all->items[i] : all;
        values[kept] = (struct mr_text){texts[kept], 0};
        if (!fixed_text(members[kept], texts[kept], &values[kept].length)) return NULL;
        bool is_new = mr_expr_work(builder, 4 * kept);
        for (uint32_t k = 0; is_new && k < kept; k++)
            is_new = !same_value(values[k], values[kept]);
        optional[kept] = is_new;
        kept += is_new;
    }
    members[kept] = mr_schema_comma(schema);
    members[kept + 1] = members[kept + 2] = mr_expr_empty();
    return mr_expr_list(builder, members, optional, kept, limits->items_min, limits->items_max);
}

static bool is_unique(const struct mr_conjunction *conjunction)
{
    bool unique = false;
    for (uint32_t i = 0; i < conjunction->count && !unique; i++)
        mr_json_bool(mr_json_get(conjunction->nodes[i], "uniqueItems"), &unique);
    return unique;
}

const struct mr_expr *mr_schema_array(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction,
                                      const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = schema->builder;
    struct mr_conjunction item;
    struct mr_schema_facts limits = *facts;
    size_t first, least, prefix = prefix_length(schema, conjunction, &first, &least);
    if (least > limits.items_min) limits.items_min = (uint32_t)least;
    if (least == UINT32_MAX || limits.items_min > limits.items_max || builder->status != MR_OK)
        return mr_expr_never();
    bool named = find_item(schema, conjunction, prefix, first, &item);
    if (is_unique(conjunction) && limits.items_max > 1) {
        const struct mr_expr *list = prefix == 0 ? unique_items(schema, &item, &limits) : NULL;
        if (list) return mr_schema_bracketed(schema, "[", list, "]");
        mr_schema_fail(schema, MR_UNSUPPORTED, conjunction->nodes[0], "uniqueItems",
                       "needs items that are constants (enum, const, boolean), or maxItems 1");
    }
    const struct mr_expr *more = schema->value(schema, &item);
    if (prefix == 0)
        return mr_schema_bracketed(
            schema, "[", mr_schema_separated(schema, more, limits.items_min, limits.items_max),
            "]");
    /* without `items`, only as many items as minItems needs follow the prefix */
    if (!named && limits.items_max > prefix)
        limits.items_max = limits.items_min > prefix ? limits.items_min : (uint32_t)prefix;
    const struct mr_expr *list = more_items(schema, more, prefix, &limits);
    for (size_t i = prefix; i-- > 0 && builder->status == MR_OK;) {
        if (i >= limits.items_max) {
            list = mr_expr_empty();
            continue;
        }
        find_item(schema, conjunction, i, first, &item);
        const struct mr_expr *parts[3] = {i > 0 ? mr_schema_comma(schema) : mr_expr_empty(),
                                          schema->value(schema, &item), list};
        list = mr_expr_seq(builder, parts, 3);
        if (i >= limits.items_min) list = mr_expr_either(builder, mr_expr_empty(), list);
    }
    return mr_schema_bracketed(schema, "[", list, "]");
}
