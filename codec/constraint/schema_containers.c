/* Arrays and objects. Properties come in the order in which the schemas name them. Properties
 * without a name in the schemas come last, and only if additionalProperties is given or the schemas
 * name no property at all. */
#include "codec/constraint/schema_state.h"

#include <string.h>

static const struct mr_expr *word(struct mr_schema *schema, const char *text)
{
    return mr_expr_word(schema->builder, text);
}

static const struct mr_expr *comma(struct mr_schema *schema)
{
    return mr_expr_pair(schema->builder, word(schema, ","), mr_schema_space(schema));
}

/* A list in brackets; white space may stand inside on both sides. */
static const struct mr_expr *bracketed(struct mr_schema *schema, const char *open,
                                       const struct mr_expr *inside, const char *close)
{
    const struct mr_expr *space = mr_schema_space(schema);
    const struct mr_expr *items[5] = {word(schema, open), space, inside, space,
                                      word(schema, close)};
    return mr_expr_seq(schema->builder, items, 5);
}

static const struct mr_expr *colon(struct mr_schema *schema)
{
    return mr_expr_either(schema->builder, word(schema, ":"), word(schema, ": "));
}

/* min to max items with commas between. */
static const struct mr_expr *separated(struct mr_schema *schema, const struct mr_expr *item,
                                       uint32_t min, uint32_t max)
{
    struct mr_expr_builder *builder = schema->builder;
    uint32_t more = max == MR_EXPR_UNBOUNDED ? max : max - 1;
    if (max == 0) return mr_expr_empty();
    const struct mr_expr *rest = mr_expr_repeat(builder, mr_expr_pair(builder, comma(schema), item),
                                                min > 0 ? min - 1 : 0, more);
    const struct mr_expr *list = mr_expr_pair(builder, item, rest);
    return min == 0 ? mr_expr_either(builder, mr_expr_empty(), list) : list;
}

/* ---- values without conditions ---- */

const struct mr_expr *mr_schema_any_object(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->object == UINT32_MAX) {
        schema->object = mr_expr_rule_add(builder, "object");
        const struct mr_expr *member[3] = {mr_schema_any_string(schema), colon(schema),
                                           mr_schema_any(schema)};
        mr_expr_rule_define(
            builder, schema->object,
            bracketed(schema, "{",
                      separated(schema, mr_expr_seq(builder, member, 3), 0, MR_EXPR_UNBOUNDED),
                      "}"));
    }
    return mr_expr_ref(builder, schema->object);
}

static const struct mr_expr *any_array(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->array == UINT32_MAX) {
        schema->array = mr_expr_rule_add(builder, "array");
        mr_expr_rule_define(
            builder, schema->array,
            bracketed(schema, "[", separated(schema, mr_schema_any(schema), 0, MR_EXPR_UNBOUNDED),
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
            mr_schema_any_object(schema), any_array(schema),
            mr_schema_any_string(schema), mr_schema_number(schema, &free),
            word(schema, "true"),         word(schema, "false"),
            word(schema, "null")};
        mr_expr_rule_define(builder, schema->any, mr_expr_alt(builder, items, 7));
    }
    return mr_expr_ref(builder, schema->any);
}

/* ---- arrays ---- */

/* The value of the item at `index` under all nodes. *named: at least one node has a schema for this
 * item. */
static const struct mr_expr *item_at(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction, size_t index,
                                     bool *named)
{
    struct mr_conjunction item = {0};
    *named = false;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *prefix = mr_json_get(conjunction->nodes[i], "prefixItems");
        const struct mr_json_value *at = mr_json_at(prefix, index);
        if (!at) at = mr_json_get(conjunction->nodes[i], "items");
        if (!at) continue;
        *named = true;
        mr_conjunction_add(schema, &item, at, UINT32_MAX);
    }
    return schema->value(schema, &item);
}

static size_t prefix_length(struct mr_schema *schema, const struct mr_conjunction *conjunction)
{
    size_t length = 0;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *prefix = mr_json_get(conjunction->nodes[i], "prefixItems");
        if (prefix && mr_json_kind(prefix) != MR_JSON_ARRAY)
            mr_schema_fail(schema, MR_INVALID_REQUEST, conjunction->nodes[i], "prefixItems",
                           "must be an array");
        if (mr_json_count(prefix) > 128)
            mr_schema_fail(schema, MR_UNSUPPORTED, conjunction->nodes[i], "prefixItems",
                           "has more than 128 items");
        if (mr_json_count(prefix) > length) length = mr_json_count(prefix);
    }
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
    return mr_expr_repeat(schema->builder, mr_expr_pair(schema->builder, comma(schema), item), min,
                          max);
}

const struct mr_expr *mr_schema_array(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction,
                                      const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = schema->builder;
    size_t prefix = prefix_length(schema, conjunction);
    bool named;
    if (facts->items_min > facts->items_max) return mr_expr_never();
    const struct mr_expr *item = item_at(schema, conjunction, prefix, &named);
    if (prefix == 0)
        return bracketed(schema, "[", separated(schema, item, facts->items_min, facts->items_max),
                         "]");
    /* without `items`, only as many items as minItems needs follow the prefix */
    struct mr_schema_facts limits = *facts;
    if (!named && limits.items_max > prefix)
        limits.items_max = limits.items_min > prefix ? limits.items_min : (uint32_t)prefix;
    const struct mr_expr *list = more_items(schema, item, prefix, &limits);
    for (size_t i = prefix; i-- > 0 && builder->status == MR_OK;) {
        if (i >= limits.items_max) {
            list = mr_expr_empty();
            continue;
        }
        const struct mr_expr *parts[3] = {i > 0 ? comma(schema) : mr_expr_empty(),
                                          item_at(schema, conjunction, i, &named), list};
        list = mr_expr_seq(builder, parts, 3);
        if (i >= limits.items_min) list = mr_expr_either(builder, mr_expr_empty(), list);
    }
    return bracketed(schema, "[", list, "]");
}

/* ---- objects ---- */

struct object {
    struct mr_schema *schema;
    const struct mr_conjunction *conjunction;
    const struct mr_expr **members; /* [member_max + 3] the items of mr_expr_list */
    bool *optional;
    struct mr_text *names; /* [name_count] all names that the schemas mention */
    uint32_t member_count, required_count, name_count, capacity;
    bool never; /* a required property has no valid value */
};

/* True if unevaluatedProperties: false of a node excludes a name, because neither the node nor a
 * node that it refers to evaluates that name. */
static bool is_unevaluated(const struct mr_conjunction *conjunction, const bool *speaks)
{
    for (uint32_t u = 0; u < conjunction->count; u++) {
        bool allowed;
        const struct mr_json_value *value =
            mr_json_get(conjunction->nodes[u], "unevaluatedProperties");
        if (!mr_json_bool(value, &allowed) || allowed) continue;
        bool evaluated = false;
        for (uint32_t i = 0; i < conjunction->count && !evaluated; i++) {
            uint32_t at = i;
            while (at != u && conjunction->parents[at] != at)
                at = conjunction->parents[at];
            evaluated = at == u && speaks[i];
        }
        if (!evaluated) return true;
    }
    return false;
}

/* The value of a property under all nodes. name.bytes NULL: any name that no node mentions. */
static const struct mr_expr *property(struct object *object, struct mr_text name)
{
    const struct mr_conjunction *conjunction = object->conjunction;
    struct mr_conjunction value = {0};
    bool speaks[MR_CONJUNCTION_MAX] = {false};
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        const struct mr_json_value *at = NULL;
        if (name.bytes) at = mr_json_get_text(mr_json_get(node, "properties"), name);
        if (!at) at = mr_json_get(node, "additionalProperties");
        if (!at) continue;
        speaks[i] = true;
        mr_conjunction_add(object->schema, &value, at, UINT32_MAX);
    }
    if (is_unevaluated(conjunction, speaks)) value.never = true;
    return object->schema->value(object->schema, &value);
}

static bool is_required(const struct object *object, struct mr_text name)
{
    for (uint32_t i = 0; i < object->conjunction->count; i++) {
        const struct mr_json_value *list = mr_json_get(object->conjunction->nodes[i], "required");
        for (size_t k = 0; k < mr_json_count(list); k++) {
            struct mr_text text;
            if (!mr_expr_work(object->schema->builder, 1)) return false;
            if (mr_json_text(mr_json_at(list, k), &text) && mr_text_equal(text, name)) return true;
        }
    }
    return false;
}

static bool is_listed(struct object *object, struct mr_text name)
{
    mr_expr_work(object->schema->builder, object->name_count / 8 + 1);
    for (uint32_t i = 0; i < object->name_count; i++)
        if (mr_text_equal(object->names[i], name)) return true;
    return false;
}

static void add_member(struct object *object, struct mr_text name)
{
    struct mr_schema *schema = object->schema;
    if (schema->builder->status != MR_OK || is_listed(object, name)) return;
    if (object->name_count == object->capacity) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, object->conjunction->nodes[0], NULL,
                       "an object has more than 4096 properties");
        return;
    }
    object->names[object->name_count++] = name;
    bool required = is_required(object, name);
    const struct mr_expr *parts[3] = {mr_schema_quoted(schema, name), colon(schema),
                                      property(object, name)};
    if (parts[2]->kind == MR_EXPR_NEVER) {
        object->never |= required;
        return;
    }
    object->members[object->member_count] = mr_expr_seq(schema->builder, parts, 3);
    object->optional[object->member_count++] = !required;
    object->required_count += required;
}

static void add_members(struct object *object)
{
    const struct mr_conjunction *conjunction = object->conjunction;
    struct mr_schema *schema = object->schema;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *properties = mr_json_get(conjunction->nodes[i], "properties");
        struct mr_json_member member = {0};
        if (properties && mr_json_kind(properties) != MR_JSON_OBJECT)
            mr_schema_fail(schema, MR_INVALID_REQUEST, conjunction->nodes[i], "properties",
                           "must be an object");
        while (schema->builder->status == MR_OK && properties && mr_json_next(properties, &member))
            add_member(object, member.name);
    }
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *required = mr_json_get(conjunction->nodes[i], "required");
        if (required && mr_json_kind(required) != MR_JSON_ARRAY)
            mr_schema_fail(schema, MR_INVALID_REQUEST, conjunction->nodes[i], "required",
                           "must be an array of names");
        for (size_t k = 0; k < mr_json_count(required) && schema->builder->status == MR_OK; k++) {
            struct mr_text name;
            if (mr_json_text(mr_json_at(required, k), &name))
                add_member(object, name);
            else
                mr_schema_fail(schema, MR_INVALID_REQUEST, conjunction->nodes[i], "required",
                               "must be an array of names");
        }
    }
}

/* True if the answer may have properties that no schema names: a node allows them explicitly or no
 * node names any property, and no node forbids them. */
static bool is_open(const struct object *object)
{
    bool open = object->name_count == 0, allowed;
    for (uint32_t i = 0; i < object->conjunction->count; i++) {
        const struct mr_json_value *additional =
            mr_json_get(object->conjunction->nodes[i], "additionalProperties");
        if (mr_json_bool(additional, &allowed) && !allowed) return false;
        open |= additional != NULL;
    }
    return open;
}

/* A member with a name that no schema mentions. */
static const struct mr_expr *extra_member(struct object *object)
{
    struct mr_schema *schema = object->schema;
    struct mr_expr_builder *builder = schema->builder;
    const struct mr_expr *value = property(object, (struct mr_text){NULL, 0});
    const struct mr_expr *name = mr_schema_any_string(schema);
    if (value->kind == MR_EXPR_NEVER) return value;
    if (object->name_count > 0) {
        static const struct mr_char_range all = {0, MR_CODE_POINT_MAX};
        const struct mr_expr **listed =
            mr_expr_take(builder, object->name_count, sizeof(struct mr_expr *));
        for (uint32_t i = 0; listed && i < object->name_count; i++)
            listed[i] = mr_expr_text(builder, object->names[i], MR_SPELL_JSON);
        if (!listed) return mr_expr_never();
        const struct mr_expr *quote = word(schema, "\"");
        const struct mr_expr *any = mr_expr_repeat(
            builder, mr_expr_class(builder, &all, 1, MR_SPELL_JSON), 0, MR_EXPR_UNBOUNDED);
        const struct mr_expr *parts[3] = {
            quote, mr_expr_minus(builder, any, mr_expr_alt(builder, listed, object->name_count)),
            quote};
        name = mr_expr_seq(builder, parts, 3);
    }
    const struct mr_expr *parts[3] = {name, colon(schema), value};
    return mr_expr_seq(builder, parts, 3);
}

/* Sets members[count + 1] and [count + 2] to the expressions of the other members, which follow the
 * named ones. A name could be repeated among them, so at most one of them can be required. */
static void add_tail(struct object *object, const struct mr_schema_facts *facts)
{
    struct mr_schema *schema = object->schema;
    struct mr_expr_builder *builder = schema->builder;
    uint32_t count = object->member_count;
    const struct mr_expr *extra = is_open(object) ? extra_member(object) : mr_expr_never();
    bool open = extra->kind != MR_EXPR_NEVER;
    uint32_t max = facts->properties_max, min = facts->properties_min;
    uint32_t missing = min > object->required_count ? min - object->required_count : 0;
    bool too_many = max != MR_EXPR_UNBOUNDED && max < count;
    if (builder->status != MR_OK) return;
    if ((too_many && max < object->required_count) || (!open && min > count)) object->never = true;
    bool counts = too_many || missing > 1 || (missing == 1 && count > object->required_count);
    if (counts && !object->never)
        mr_schema_fail(schema, MR_UNSUPPORTED, object->conjunction->nodes[0],
                       missing > 0 ? "minProperties" : "maxProperties",
                       "cannot be guaranteed together with optional or unnamed properties");
    uint32_t most = !open ? 0 : max == MR_EXPR_UNBOUNDED ? max : max > count ? max - count : 0;
    const struct mr_expr *more = mr_expr_pair(builder, comma(schema), extra);
    object->members[count] = comma(schema);
    object->members[count + 1] = separated(schema, extra, missing > 0 ? 1 : 0, most);
    object->members[count + 2] = mr_expr_repeat(builder, more, missing > 0 ? 1 : 0, most);
}

const struct mr_expr *mr_schema_object(struct mr_schema *schema,
                                       const struct mr_conjunction *conjunction,
                                       const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = schema->builder;
    struct object object = {.schema = schema, .conjunction = conjunction};
    size_t names = 0;
    for (uint32_t i = 0; i < conjunction->count; i++)
        names += mr_json_count(mr_json_get(conjunction->nodes[i], "properties")) +
                 mr_json_count(mr_json_get(conjunction->nodes[i], "required"));
    object.capacity = names > MR_PROPERTIES_MAX ? MR_PROPERTIES_MAX : (uint32_t)names;
    object.members = mr_expr_take(builder, object.capacity + 3u, sizeof *object.members);
    object.optional = mr_expr_take(builder, object.capacity + 1u, sizeof *object.optional);
    object.names = mr_expr_take(builder, object.capacity + 1u, sizeof *object.names);
    if (!object.members || !object.optional || !object.names) return mr_expr_never();
    add_members(&object);
    if (builder->status == MR_OK) add_tail(&object, facts);
    if (builder->status != MR_OK || object.never) return mr_expr_never();
    return bracketed(schema, "{",
                     mr_expr_list(builder, object.members, object.optional, object.member_count),
                     "}");
}
