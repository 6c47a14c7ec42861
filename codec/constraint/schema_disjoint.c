/* Decides for oneOf whether two schemas are disjoint, by a sufficient condition. A value must
 * satisfy a schema and its $ref target, so one disjoint pair among these is enough. */
#include "codec/constraint/schema_state.h"

#define DEPTH_MAX      4u
#define REFERENCES_MAX 8u /* length of a chain of $ref that is followed */

static bool equal_members(const struct mr_json_value *one, const struct mr_json_value *other)
{
    struct mr_json_member member = {0};
    while (mr_json_next(one, &member)) {
        const struct mr_json_value *value = mr_json_get_text(other, member.name);
        if (!value || !mr_schema_equal_values(member.value, value)) return false;
    }
    return true;
}

static bool equal_numbers(const struct mr_json_value *one, const struct mr_json_value *other)
{
    int64_t i, j;
    char scratch[2][32];
    struct mr_decimal a, b;
    if (mr_schema_type_of(other) != MR_TYPE_NUMBER) return false;
    if (mr_json_int(one, &i) && mr_json_int(other, &j)) return i == j;
    struct mr_text s = mr_json_number_text(one, scratch[0]);
    struct mr_text t = mr_json_number_text(other, scratch[1]);
    if (!mr_decimal_read(&a, s) || !mr_decimal_read(&b, t)) return mr_text_equal(s, t);
    return mr_decimal_compare(&a, &b) == 0;
}

bool mr_schema_equal_values(const struct mr_json_value *one, const struct mr_json_value *other)
{
    bool p, q;
    struct mr_text s, t;
    if (mr_schema_type_of(one) == MR_TYPE_NUMBER) return equal_numbers(one, other);
    if (mr_json_kind(one) != mr_json_kind(other)) return false;
    if (mr_json_bool(one, &p)) return mr_json_bool(other, &q) && p == q;
    if (mr_json_text(one, &s)) return mr_json_text(other, &t) && mr_text_equal(s, t);
    if (mr_json_count(one) != mr_json_count(other)) return false;
    if (mr_json_kind(one) == MR_JSON_OBJECT) return equal_members(one, other);
    for (size_t i = 0; i < mr_json_count(one); i++)
        if (!mr_schema_equal_values(mr_json_at(one, i), mr_json_at(other, i))) return false;
    return true;
}

size_t mr_schema_constants(const struct mr_json_value *node)
{
    if (mr_json_get(node, "const")) return 1;
    return mr_json_count(mr_json_get(node, "enum"));
}

const struct mr_json_value *mr_schema_constant(const struct mr_json_value *node, size_t index)
{
    const struct mr_json_value *value = mr_json_get(node, "const");
    return value ? value : mr_json_at(mr_json_get(node, "enum"), index);
}

/* The types that values of a schema may have. */
static unsigned types_of(const struct mr_json_value *node)
{
    bool integer, allowed;
    unsigned types = MR_TYPE_ALL, constants = 0;
    if (mr_json_bool(node, &allowed) && !allowed) return 0;
    const struct mr_json_value *type = mr_json_get(node, "type");
    if (type) types = mr_schema_types(type, &integer);
    for (size_t i = 0; i < mr_schema_constants(node); i++)
        constants |= mr_schema_type_of(mr_schema_constant(node, i));
    return constants ? types & constants : types;
}

/* The number of values in a value, itself included. */
static uint32_t values_in(const struct mr_json_value *value)
{
    uint32_t count = 1;
    struct mr_json_member member = {0};
    if (mr_json_kind(value) == MR_JSON_OBJECT)
        while (mr_json_next(value, &member))
            count += values_in(member.value);
    if (mr_json_kind(value) == MR_JSON_ARRAY)
        for (size_t i = 0; i < mr_json_count(value); i++)
            count += values_in(mr_json_at(value, i));
    return count;
}

static bool constants_differ(struct mr_schema *schema, const struct mr_json_value *one,
                             const struct mr_json_value *other)
{
    size_t m = mr_schema_constants(one), n = mr_schema_constants(other);
    if (m == 0 || n == 0) return false;
    for (size_t i = 0; i < m; i++) {
        const struct mr_json_value *value = mr_schema_constant(one, i);
        const uint32_t units = 2 + 4 * values_in(value);
        for (size_t j = 0; j < n; j++)
            if (!mr_expr_work(schema->builder, units) ||
                mr_schema_equal_values(value, mr_schema_constant(other, j)))
                return false;
    }
    return true;
}

static bool requires(struct mr_schema *schema, const struct mr_json_value *node,
                     struct mr_text name)
{
    const struct mr_json_value *required = mr_json_get(node, "required");
    struct mr_text text;
    if (!mr_expr_work(schema->builder, (uint32_t)mr_json_count(required))) return false;
    for (size_t i = 0; i < mr_json_count(required); i++)
        if (mr_json_text(mr_json_at(required, i), &text) && mr_text_equal(text, name)) return true;
    return false;
}

/* True if `one` requires a property that `other` requires with a disjoint schema, or that `other`
 * forbids. */
static bool properties_differ(struct mr_schema *schema, const struct mr_json_value *one,
                              const struct mr_json_value *other, unsigned depth)
{
    const struct mr_json_value *required = mr_json_get(one, "required");
    const struct mr_json_value *mine = mr_json_get(one, "properties");
    const struct mr_json_value *theirs = mr_json_get(other, "properties");
    bool additional = true;
    mr_json_bool(mr_json_get(other, "additionalProperties"), &additional);
    for (size_t i = 0; i < mr_json_count(required) && mr_expr_work(schema->builder, 10); i++) {
        struct mr_text name;
        if (!mr_json_text(mr_json_at(required, i), &name)) continue;
        const struct mr_json_value *a = mr_json_get_text(mine, name);
        const struct mr_json_value *b = mr_json_get_text(theirs, name);
        if (!b && !additional) return true;
        if (a && b && requires(schema, other, name) && mr_schema_disjoint(schema, a, b, depth + 1))
            return true;
    }
    return false;
}

/* The types that a schema and its $ref targets allow together. */
static unsigned types_along(struct mr_schema *schema, const struct mr_json_value *node)
{
    unsigned types = MR_TYPE_ALL;
    for (unsigned i = 0; node && i < REFERENCES_MAX; i++, node = mr_schema_target(schema, node))
        types &= types_of(node);
    return types;
}

bool mr_schema_disjoint(struct mr_schema *schema, const struct mr_json_value *one,
                        const struct mr_json_value *other, unsigned depth)
{
    unsigned types = types_along(schema, one) & types_along(schema, other);
    bool objects = types == MR_TYPE_OBJECT && depth < DEPTH_MAX;
    if (types == 0) return true;
    for (unsigned i = 0; one && i < REFERENCES_MAX; i++, one = mr_schema_target(schema, one)) {
        const struct mr_json_value *at = other;
        for (unsigned j = 0; at && j < REFERENCES_MAX; j++, at = mr_schema_target(schema, at)) {
            if (!mr_expr_work(schema->builder, 20)) return false;
            if (constants_differ(schema, one, at)) return true;
            if (objects && (properties_differ(schema, one, at, depth) ||
                            properties_differ(schema, at, one, depth)))
                return true;
        }
    }
    return false;
}

/* The schema of a property in a schema or its $ref targets; NULL if they have none. */
static const struct mr_json_value *
property_of(struct mr_schema *schema, const struct mr_json_value *node, struct mr_text name)
{
    const struct mr_json_value *found = NULL;
    for (unsigned i = 0; node && !found && i < REFERENCES_MAX; i++) {
        found = mr_json_get_text(mr_json_get(node, "properties"), name);
        node = mr_schema_target(schema, node);
    }
    return found;
}

bool mr_schema_tag(struct mr_schema *schema, const struct mr_json_value *one,
                   const struct mr_json_value *other, struct mr_text *name)
{
    for (unsigned i = 0; one && i < REFERENCES_MAX; i++, one = mr_schema_target(schema, one)) {
        const struct mr_json_value *properties = mr_json_get(one, "properties");
        struct mr_json_member member = {0};
        if (!properties || mr_json_kind(properties) != MR_JSON_OBJECT) continue;
        while (mr_json_next(properties, &member) && mr_expr_work(schema->builder, 10)) {
            const struct mr_json_value *theirs = property_of(schema, other, member.name);
            if (!theirs || !mr_schema_disjoint(schema, member.value, theirs, 1)) continue;
            *name = member.name;
            return true;
        }
    }
    return false;
}
