#include "codec/constraint/schema.h"

#include "codec/check.h"
#include "codec/constraint/schema_state.h"
#include "codec/hash.h"

#include <stdio.h>
#include <string.h>

#define ALTERNATIVES_MAX 1024u

/* ---- rules ---- */

/* True for a schema without subschemas. It cannot be recursive, so it needs no rule. */
static bool is_scalar(const struct mr_json_value *node)
{
    static const char *const leading[] = {"$ref",        "allOf",      "anyOf",
                                          "oneOf",       "properties", "items",
                                          "prefixItems", "required",   "additionalProperties"};
    bool integer;
    if (mr_json_kind(node) != MR_JSON_OBJECT) return false;
    for (size_t i = 0; i < sizeof leading / sizeof leading[0]; i++)
        if (mr_json_get(node, leading[i])) return false;
    if (mr_json_get(node, "enum") || mr_json_get(node, "const")) return true;
    const struct mr_json_value *type = mr_json_get(node, "type");
    return type && (mr_schema_types(type, &integer) & (MR_TYPE_ARRAY | MR_TYPE_OBJECT)) == 0;
}

static uint64_t hash_of(const struct mr_conjunction *conjunction)
{
    return mr_hash_bytes(MR_HASH_START, conjunction->nodes,
                         conjunction->count * sizeof *conjunction->nodes);
}

static bool same(const struct mr_conjunction *one, const struct mr_conjunction *other)
{
    return one->count == other->count && one->taken_count == other->taken_count &&
           memcmp(one->nodes, other->nodes, one->count * sizeof *one->nodes) == 0 &&
           memcmp(one->parents, other->parents, one->count * sizeof *one->parents) == 0 &&
           memcmp(one->taken, other->taken, one->taken_count * sizeof *one->taken) == 0;
}

static bool enqueue(struct mr_schema *schema, const struct mr_schema_place *place)
{
    if (schema->queue_count == schema->queue_capacity) {
        uint32_t capacity = schema->queue_capacity ? 2 * schema->queue_capacity : 64;
        const struct mr_schema_place **queue =
            mr_expr_take(schema->builder, capacity, sizeof(struct mr_schema_place *));
        if (!queue) return false;
        for (uint32_t i = 0; i < schema->queue_count; i++)
            queue[i] = schema->queue[i];
        schema->queue = queue;
        schema->queue_capacity = capacity;
    }
    schema->queue[schema->queue_count++] = place;
    return true;
}

/* Finds the rule of a conjunction, or adds one and queues its definition. */
static uint32_t rule_of(struct mr_schema *schema, const struct mr_conjunction *conjunction)
{
    struct mr_schema_place **slot =
        &schema->table[hash_of(conjunction) % (sizeof schema->table / sizeof schema->table[0])];
    for (struct mr_schema_place *at = *slot; at; at = at->next)
        if (same(at->conjunction, conjunction)) return at->rule;
    struct mr_schema_place *place = mr_expr_take(schema->builder, 1, sizeof *place);
    struct mr_conjunction *copy = mr_expr_take(schema->builder, 1, sizeof *copy);
    if (!place || !copy) return 0;
    *copy = *conjunction;
    *place = (struct mr_schema_place){*slot, copy, mr_expr_rule_add(schema->builder, "schema")};
    if (schema->builder->status == MR_OK)
        schema->builder->rules[place->rule].origin = conjunction->nodes[0];
    *slot = place;
    if (!enqueue(schema, place)) return 0;
    return place->rule;
}

/* ---- values ---- */

static const struct mr_expr *body_of(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction);

/* Exactly one alternative of oneOf may hold, so every two must be disjoint. */
static void check_one_of(struct mr_schema *schema, const struct mr_json_value *owner,
                         const struct mr_json_value *group)
{
    size_t count = mr_json_count(group);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && mr_expr_work(schema->builder, 20); j++)
            if (!mr_schema_disjoint(schema, mr_json_at(group, i), mr_json_at(group, j), 0)) {
                char what[160];
                snprintf(what, sizeof what,
                         "alternatives %zu and %zu may both hold; use different types, or "
                         "a required property with different constants",
                         i, j);
                mr_schema_fail(schema, MR_UNSUPPORTED, owner, "oneOf", what);
                return;
            }
}

static const struct mr_expr *any_of(struct mr_schema *schema,
                                    const struct mr_conjunction *conjunction,
                                    const struct mr_json_value *group, uint32_t owner,
                                    bool exactly_one)
{
    size_t count = mr_json_count(group);
    const char *keyword = exactly_one ? "oneOf" : "anyOf";
    if (mr_json_kind(group) != MR_JSON_ARRAY || count == 0 || count > ALTERNATIVES_MAX) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, conjunction->nodes[owner], keyword,
                       "must be an array of 1 to 1024 schemas");
        return mr_expr_never();
    }
    if (exactly_one) check_one_of(schema, conjunction->nodes[owner], group);
    const struct mr_expr **items = mr_expr_take(schema->builder, count, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        struct mr_conjunction with = *conjunction;
        items[i] = mr_expr_never();
        if (with.taken_count == MR_CONJUNCTION_MAX) {
            mr_schema_fail(schema, MR_UNSUPPORTED, conjunction->nodes[owner], keyword,
                           "more than 48 anyOf and oneOf apply at one place");
            break;
        }
        with.taken[with.taken_count++] = group;
        mr_conjunction_add(schema, &with, mr_json_at(group, i), owner);
        if (schema->builder->status != MR_OK) break;
        items[i] = body_of(schema, &with);
    }
    if (schema->builder->status != MR_OK) return mr_expr_never();
    return mr_expr_alt(schema->builder, items, (uint32_t)count);
}

/* One alternative for each type that a conjunction allows. Every anyOf and oneOf has been resolved.
 */
static const struct mr_expr *by_type(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction)
{
    struct mr_schema_facts facts;
    const struct mr_expr *items[7];
    uint32_t count = 0;
    mr_schema_merge(schema, conjunction, &facts);
    const struct mr_expr *constants = mr_schema_enum(schema, conjunction, &facts);
    if (constants) return constants;
    if (conjunction->count == 0) return mr_schema_any(schema);
    if (facts.types & MR_TYPE_OBJECT)
        items[count++] = mr_schema_object(schema, conjunction, &facts);
    if (facts.types & MR_TYPE_ARRAY) items[count++] = mr_schema_array(schema, conjunction, &facts);
    if (facts.types & MR_TYPE_STRING)
        items[count++] = mr_schema_string(schema, conjunction, &facts);
    if (facts.types & MR_TYPE_NUMBER) items[count++] = mr_schema_number(schema, &facts);
    if (facts.types & MR_TYPE_BOOL) {
        items[count++] = mr_expr_word(schema->builder, "true");
        items[count++] = mr_expr_word(schema->builder, "false");
    }
    if (facts.types & MR_TYPE_NULL) items[count++] = mr_expr_word(schema->builder, "null");
    return mr_expr_alt(schema->builder, items, count);
}

static const struct mr_expr *body_of(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction)
{
    const struct mr_json_value *group;
    uint32_t owner;
    bool exactly_one;
    if (schema->builder->status != MR_OK || conjunction->never) return mr_expr_never();
    if (!mr_expr_work(schema->builder, 50 + 20 * conjunction->count)) return mr_expr_never();
    if (mr_conjunction_open(conjunction, &group, &owner, &exactly_one))
        return any_of(schema, conjunction, group, owner, exactly_one);
    return by_type(schema, conjunction);
}

static const struct mr_expr *value_of(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction)
{
    bool scalar = conjunction->count > 0;
    if (schema->builder->status != MR_OK || conjunction->never) return mr_expr_never();
    if (conjunction->count == 0) return mr_schema_any(schema);
    for (uint32_t i = 0; i < conjunction->count; i++)
        scalar = scalar && is_scalar(conjunction->nodes[i]);
    if (scalar) return body_of(schema, conjunction);
    uint32_t rule = rule_of(schema, conjunction);
    return mr_expr_ref(schema->builder, rule);
}

/* ---- the whole ---- */

static void init(struct mr_schema *schema, struct mr_expr_builder *builder)
{
    *schema = (struct mr_schema){.builder = builder,
                                 .value = value_of,
                                 .any = UINT32_MAX,
                                 .object = UINT32_MAX,
                                 .array = UINT32_MAX,
                                 .string = UINT32_MAX,
                                 .character = UINT32_MAX,
                                 .number = UINT32_MAX,
                                 .integer = UINT32_MAX,
                                 .digits = UINT32_MAX,
                                 .indent = UINT32_MAX};
}

void mr_schema_define(struct mr_expr_builder *builder, uint32_t rule, struct mr_text text,
                      struct mr_json **document)
{
    static const struct mr_json_limits limits = {((size_t)1 << 20), MR_SCHEMA_VALUES_MAX,
                                                 MR_SCHEMA_DEPTH_MAX};
    struct mr_error why;
    struct mr_schema schema;
    struct mr_conjunction root = {0};
    if (mr_json_parse_wide(document, text, &limits, &why) != MR_OK) {
        mr_expr_fail(builder, MR_INVALID_REQUEST, "schema: %.150s", why.detail);
        return;
    }
    init(&schema, builder);
    schema.root = mr_json_root(*document);
    builder->rules[rule].origin = schema.root;
    mr_conjunction_add(&schema, &root, schema.root, UINT32_MAX);
    mr_expr_rule_define(builder, rule, value_of(&schema, &root));
    while (schema.queue_next < schema.queue_count && builder->status == MR_OK) {
        const struct mr_schema_place *place = schema.queue[schema.queue_next++];
        builder->rule = place->rule;
        mr_expr_rule_define(builder, place->rule, body_of(&schema, place->conjunction));
    }
}

void mr_schema_define_object(struct mr_expr_builder *builder)
{
    struct mr_schema schema;
    init(&schema, builder);
    mr_expr_rule_define(builder, 0, mr_schema_any_object(&schema));
}
