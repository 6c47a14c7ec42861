#include "codec/constraint/schema.h"

#include "codec/check.h"
#include "codec/constraint/schema_state.h"
#include "codec/hash.h"

#include <stdio.h>
#include <string.h>

/* ---- rules ---- */

/* True for a schema without subschemas. It cannot be recursive, so it needs no rule. */
static bool is_scalar(const struct mr_json_value *node)
{
    static const char *const leading[] = {"$ref",     "$dynamicRef",         "allOf", "anyOf",
                                          "oneOf",    "properties",          "items", "prefixItems",
                                          "required", "additionalProperties"};
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
           memcmp(one->taken, other->taken, one->taken_count * sizeof *one->taken) == 0 &&
           one->condition_count == other->condition_count &&
           memcmp(one->conditions, other->conditions,
                  one->condition_count * sizeof *one->conditions) == 0;
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

/* One alternative for each type that a conjunction allows. Every choice has been resolved. */
static const struct mr_expr *by_type(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction)
{
    struct mr_schema_facts facts;
    const struct mr_expr *items[7];
    uint32_t count = 0;
    mr_schema_merge(schema, conjunction, &facts);
    if (schema->texts_only) facts.types &= MR_TYPE_STRING;
    uint32_t constant_count;
    const struct mr_expr **constants = mr_schema_enum(schema, conjunction, &facts, &constant_count);
    if (constants) return mr_expr_alt(schema->builder, constants, constant_count);
    if (facts.types & MR_TYPE_OBJECT)
        items[count++] = mr_schema_object(schema, conjunction, &facts);
    if (facts.types & MR_TYPE_ARRAY) items[count++] = mr_schema_array(schema, conjunction, &facts);
    if (facts.types & MR_TYPE_STRING)
        items[count++] = mr_schema_string(schema, conjunction, &facts);
    if (facts.types & MR_TYPE_NUMBER) items[count++] = mr_schema_number(schema, &facts);
    if (facts.types & MR_TYPE_BOOL) {
        if (!facts.no_true) items[count++] = mr_expr_word(schema->builder, "true");
        if (!facts.no_false) items[count++] = mr_expr_word(schema->builder, "false");
    }
    if (facts.types & MR_TYPE_NULL) items[count++] = mr_expr_word(schema->builder, "null");
    return mr_expr_alt(schema->builder, items, count);
}

static const struct mr_expr *body_of(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction)
{
    const struct mr_expr *alternatives;
    if (schema->builder->status != MR_OK || conjunction->never) return mr_expr_never();
    if (!mr_expr_work(schema->builder, 50 + 20 * conjunction->count)) return mr_expr_never();
    if (mr_schema_choose(schema, conjunction, &alternatives)) return alternatives;
    return by_type(schema, conjunction);
}

static const struct mr_expr *value_of(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction)
{
    bool scalar = conjunction->count > 0;
    if (schema->builder->status != MR_OK || conjunction->never) return mr_expr_never();
    for (uint32_t i = 0; i < schema->lax_count; i++)
        if (conjunction->nodes[0] == schema->lax[i]) return mr_schema_any_object(schema);
    if (schema->texts_only) return body_of(schema, conjunction);
    if (conjunction->count + conjunction->condition_count == 0) return mr_schema_any(schema);
    for (uint32_t i = 0; i < conjunction->count; i++)
        scalar = scalar && is_scalar(conjunction->nodes[i]);
    if (scalar) return body_of(schema, conjunction);
    uint32_t rule = rule_of(schema, conjunction);
    return mr_expr_ref(schema->builder, rule);
}

/* ---- the whole ---- */

static void init(struct mr_schema *schema, struct mr_expr_builder *builder,
                 struct mr_json *document)
{
    *schema = (struct mr_schema){.builder = builder,
                                 .document = document,
                                 .value = value_of,
                                 .body = body_of,
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

static void define_all(struct mr_schema *schema, uint32_t rule)
{
    const struct mr_json_value *node = mr_json_root(schema->document);
    struct mr_expr_builder *builder = schema->builder;
    struct mr_conjunction root = {0};
    builder->rules[rule].origin = node;
    mr_conjunction_add(schema, &root, node, UINT32_MAX);
    mr_expr_rule_define(builder, rule, value_of(schema, &root));
    while (schema->queue_next < schema->queue_count && builder->status == MR_OK) {
        const struct mr_schema_place *place = schema->queue[schema->queue_next++];
        builder->rule = place->rule;
        mr_expr_rule_define(builder, place->rule, body_of(schema, place->conjunction));
    }
}

/* After a failure in the schema of a tool that is not strict: forgets all rules, so that they can
 * be defined anew with any object in its place. False if there is no such failure. */
static bool forgive(struct mr_schema *schema, uint32_t rule, uint32_t rules)
{
    struct mr_expr_builder *builder = schema->builder;
    const struct mr_schema last = *schema;
    if (builder->status == MR_OK || !last.bad || last.lax_count == MR_SCHEMA_LAX_MAX) return false;
    builder->status = MR_OK;
    builder->over_limit = false;
    builder->rule_count = rules;
    builder->rules[rule].body = NULL;
    if (builder->err && !*builder->warning)
        snprintf(builder->warning, sizeof builder->warning,
                 "%.140s; its arguments may be any object", builder->err->detail);
    init(schema, builder, last.document);
    schema->index = last.index; /* failures may be in its copies of the document */
    memcpy(schema->lax, last.lax, sizeof last.lax);
    schema->lax[last.lax_count] = last.bad;
    schema->lax_count = last.lax_count + 1;
    return true;
}

void mr_schema_define(struct mr_expr_builder *builder, uint32_t rule, struct mr_text text,
                      struct mr_json **document)
{
    static const struct mr_json_limits limits = {((size_t)1 << 20), MR_SCHEMA_VALUES_MAX,
                                                 MR_SCHEMA_DEPTH_MAX};
    struct mr_error why;
    struct mr_schema schema;
    if (mr_json_parse_wide(document, text, &limits, &why) != MR_OK) {
        mr_expr_fail(builder, MR_INVALID_REQUEST, "schema: %.150s", why.detail);
        return;
    }
    init(&schema, builder, *document);
    const uint32_t rules = builder->rule_count;
    bool again;
    do {
        define_all(&schema, rule);
        again = forgive(&schema, rule, rules);
    } while (again);
}

void mr_schema_define_object(struct mr_expr_builder *builder)
{
    struct mr_schema schema;
    init(&schema, builder, NULL);
    mr_expr_rule_define(builder, 0, mr_schema_any_object(&schema));
}
