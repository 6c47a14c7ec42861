/* From schema objects to conjunctions: $ref, allOf, keywords, and the combined bounds of several
 * schemas. */
#include "codec/constraint/schema_state.h"

#include <math.h>
#include <string.h>

#define MULTIPLE_DIGITS_MAX      15u
#define MULTIPLE_MAX             999999999999999u
#define MULTIPLE_SIGNIFICANT_MAX 2000u

/* ---- keywords ---- */

/* Keywords of draft 2020-12 and earlier drafts that restrict values in a way that is not
 * implemented. Any other keyword that is neither listed here nor implemented is an annotation. */
static const char *const refused[] = {"not",
                                      "if",
                                      "then",
                                      "else",
                                      "contains",
                                      "minContains",
                                      "maxContains",
                                      "patternProperties",
                                      "propertyNames",
                                      "$dynamicRef",
                                      "$recursiveRef",
                                      "dependentRequired",
                                      "dependencies",
                                      "dependentSchemas",
                                      "additionalItems",
                                      "unevaluatedItems"};

static bool is_false(const struct mr_json_value *value)
{
    bool flag;
    return mr_json_bool(value, &flag) && !flag;
}

static bool is_true(const struct mr_json_value *value)
{
    bool flag;
    return mr_json_bool(value, &flag) && flag;
}

static void check_keywords(struct mr_schema *schema, const struct mr_json_value *node)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (mr_json_get(node, refused[i]))
            mr_schema_fail(schema, MR_UNSUPPORTED, node, refused[i],
                           "this keyword is not supported");
    const struct mr_json_value *unique = mr_json_get(node, "uniqueItems");
    if (unique && !is_false(unique))
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "uniqueItems", "only false is supported");
    const struct mr_json_value *unevaluated = mr_json_get(node, "unevaluatedProperties");
    if (unevaluated && mr_json_kind(unevaluated) != MR_JSON_BOOL)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "unevaluatedProperties",
                       "only true and false are supported");
    if (mr_json_get(node, "$id") && node != schema->root)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "$id", "is supported at the root only");
    const struct mr_json_value *items = mr_json_get(node, "items");
    if (items && mr_json_kind(items) == MR_JSON_ARRAY)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "items",
                       "an array of schemas is written prefixItems in draft 2020-12");
    mr_expr_work(schema->builder, 100);
}

/* ---- $ref ---- */

/* Copies one step of a JSON pointer to out and undoes its escapes: ~0, ~1 and %XX. */
static bool decode_step(struct mr_text step, char *out, size_t *length)
{
    *length = 0;
    for (size_t i = 0; i < step.length; i++) {
        char byte = step.bytes[i];
        if (byte == '%') {
            if (i + 2 >= step.length) return false;
            int high = mr_text_hex_value(step.bytes[i + 1]);
            int low = mr_text_hex_value(step.bytes[i + 2]);
            if (high < 0 || low < 0) return false;
            byte = (char)(high * 16 + low);
            i += 2;
        } else if (byte == '~') {
            if (++i == step.length || (step.bytes[i] != '0' && step.bytes[i] != '1')) return false;
            byte = step.bytes[i] == '0' ? '~' : '/';
        }
        out[(*length)++] = byte;
    }
    return true;
}

static const struct mr_json_value *child_of(const struct mr_json_value *node, struct mr_text name)
{
    if (mr_json_kind(node) == MR_JSON_OBJECT) return mr_json_get_text(node, name);
    if (mr_json_kind(node) != MR_JSON_ARRAY || name.length == 0 || name.length > 6) return NULL;
    size_t index = 0;
    for (size_t i = 0; i < name.length; i++) {
        if (name.bytes[i] < '0' || name.bytes[i] > '9') return NULL;
        index = index * 10 + (size_t)(name.bytes[i] - '0');
    }
    return mr_json_at(node, index);
}

/* The schema at a reference "#" or "#/..." of this document; NULL when there is none. */
static const struct mr_json_value *follow(struct mr_schema *schema, struct mr_text reference)
{
    const struct mr_json_value *at = schema->root;
    if (reference.length == 0 || reference.bytes[0] != '#') return NULL;
    size_t begin = 1;
    if (reference.length > 1 && reference.bytes[1] != '/') return NULL;
    while (at && begin < reference.length) {
        size_t end = begin + 1, length;
        while (end < reference.length && reference.bytes[end] != '/')
            end++;
        char *step = mr_expr_take(schema->builder, end - begin, 1);
        if (!step || !mr_expr_work(schema->builder, (uint32_t)(end - begin)) ||
            !decode_step(mr_text_part(reference, begin + 1, end), step, &length))
            return NULL;
        at = child_of(at, (struct mr_text){step, length});
        begin = end;
    }
    return at;
}

const struct mr_json_value *mr_schema_target(struct mr_schema *schema,
                                             const struct mr_json_value *node)
{
    struct mr_text reference;
    const struct mr_json_value *value = mr_json_get(node, "$ref");
    if (!value) return NULL;
    const struct mr_json_value *target =
        mr_json_text(value, &reference) ? follow(schema, reference) : NULL;
    if (!target)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "$ref",
                       "must be a JSON pointer that starts with # and leads to a schema here");
    return target;
}

unsigned mr_schema_type_of(const struct mr_json_value *value)
{
    switch (mr_json_kind(value)) {
    case MR_JSON_NULL:
        return MR_TYPE_NULL;
    case MR_JSON_BOOL:
        return MR_TYPE_BOOL;
    case MR_JSON_INT:
    case MR_JSON_REAL:
    case MR_JSON_BIG:
        return MR_TYPE_NUMBER;
    case MR_JSON_TEXT:
        return MR_TYPE_STRING;
    case MR_JSON_ARRAY:
        return MR_TYPE_ARRAY;
    case MR_JSON_OBJECT:
        break;
    }
    return MR_TYPE_OBJECT;
}

/* ---- conjunctions ---- */

static bool is_ancestor(const struct mr_conjunction *conjunction, uint32_t index,
                        const struct mr_json_value *node)
{
    for (;;) {
        if (conjunction->nodes[index] == node) return true;
        if (conjunction->parents[index] == index) return false;
        index = conjunction->parents[index];
    }
}

static bool has_node(const struct mr_conjunction *conjunction, const struct mr_json_value *node)
{
    for (uint32_t i = 0; i < conjunction->count; i++)
        if (conjunction->nodes[i] == node) return true;
    return false;
}

void mr_conjunction_add(struct mr_schema *schema, struct mr_conjunction *conjunction,
                        const struct mr_json_value *node, uint32_t parent)
{
    if (schema->builder->status != MR_OK || is_true(node)) return;
    if (is_false(node)) {
        conjunction->never = true;
        return;
    }
    if (mr_json_kind(node) != MR_JSON_OBJECT) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, NULL,
                       "a schema must be an object or a boolean");
        return;
    }
    if (parent != UINT32_MAX && is_ancestor(conjunction, parent, node)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, NULL,
                       "refers to itself without a property or item in between");
        return;
    }
    if (has_node(conjunction, node) || !mr_expr_work(schema->builder, 20)) return;
    if (conjunction->count == MR_CONJUNCTION_MAX) {
        mr_schema_fail(schema, MR_UNSUPPORTED, node, NULL,
                       "more than 48 schemas apply at one place");
        return;
    }
    uint32_t index = conjunction->count++;
    conjunction->nodes[index] = node;
    conjunction->parents[index] = parent == UINT32_MAX ? index : parent;
    check_keywords(schema, node);
    const struct mr_json_value *target = mr_schema_target(schema, node);
    if (target) mr_conjunction_add(schema, conjunction, target, index);
    const struct mr_json_value *all = mr_json_get(node, "allOf");
    if (all && mr_json_kind(all) != MR_JSON_ARRAY)
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, "allOf", "must be an array");
    for (size_t i = 0; i < mr_json_count(all); i++)
        mr_conjunction_add(schema, conjunction, mr_json_at(all, i), index);
}

static bool is_taken(const struct mr_conjunction *conjunction, const struct mr_json_value *group)
{
    for (uint32_t i = 0; i < conjunction->taken_count; i++)
        if (conjunction->taken[i] == group) return true;
    return false;
}

bool mr_conjunction_open(const struct mr_conjunction *conjunction,
                         const struct mr_json_value **group, uint32_t *owner, bool *exactly_one)
{
    for (uint32_t i = 0; i < conjunction->count; i++)
        for (unsigned one = 0; one < 2; one++) {
            const struct mr_json_value *at =
                mr_json_get(conjunction->nodes[i], one ? "oneOf" : "anyOf");
            if (!at || is_taken(conjunction, at)) continue;
            *group = at;
            *owner = i;
            *exactly_one = one == 1;
            return true;
        }
    return false;
}

/* ---- facts ---- */

static unsigned type_named(struct mr_text name, bool *integer)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {{"null", MR_TYPE_NULL},     {"boolean", MR_TYPE_BOOL},
                 {"number", MR_TYPE_NUMBER}, {"integer", MR_TYPE_NUMBER},
                 {"string", MR_TYPE_STRING}, {"array", MR_TYPE_ARRAY},
                 {"object", MR_TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (mr_text_is(name, types[i].name)) {
            *integer = mr_text_is(name, "integer");
            return types[i].type;
        }
    return 0;
}

unsigned mr_schema_types(const struct mr_json_value *type, bool *integer)
{
    struct mr_text name;
    unsigned types = 0;
    bool number = false, part;
    *integer = false;
    if (mr_json_text(type, &name)) return type_named(name, integer);
    for (size_t i = 0; i < mr_json_count(type); i++) {
        unsigned one = mr_json_text(mr_json_at(type, i), &name) ? type_named(name, &part) : 0;
        if (one == 0) return 0;
        if (one == MR_TYPE_NUMBER && !part) number = true;
        if (one == MR_TYPE_NUMBER && part) *integer = true;
        types |= one;
    }
    if (number) *integer = false;
    return types;
}

/* The types that the keywords of a schema without `type` apply to. */
static unsigned implied_types(const struct mr_json_value *node)
{
    static const struct {
        const char *keyword;
        unsigned type;
    } implied[] = {{"properties", MR_TYPE_OBJECT},
                   {"required", MR_TYPE_OBJECT},
                   {"additionalProperties", MR_TYPE_OBJECT},
                   {"minProperties", MR_TYPE_OBJECT},
                   {"maxProperties", MR_TYPE_OBJECT},
                   {"unevaluatedProperties", MR_TYPE_OBJECT},
                   {"items", MR_TYPE_ARRAY},
                   {"prefixItems", MR_TYPE_ARRAY},
                   {"minItems", MR_TYPE_ARRAY},
                   {"maxItems", MR_TYPE_ARRAY},
                   {"minLength", MR_TYPE_STRING},
                   {"maxLength", MR_TYPE_STRING},
                   {"pattern", MR_TYPE_STRING},
                   {"format", MR_TYPE_STRING},
                   {"minimum", MR_TYPE_NUMBER},
                   {"maximum", MR_TYPE_NUMBER},
                   {"exclusiveMinimum", MR_TYPE_NUMBER},
                   {"exclusiveMaximum", MR_TYPE_NUMBER},
                   {"multipleOf", MR_TYPE_NUMBER}};
    unsigned types = 0;
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++)
        if (mr_json_get(node, implied[i].keyword)) types |= implied[i].type;
    return types;
}

static void merge_types(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                        struct mr_schema_facts *facts)
{
    unsigned implied = 0;
    bool typed = false;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        const struct mr_json_value *type = mr_json_get(node, "type");
        bool integer;
        implied |= implied_types(node);
        if (!type) continue;
        unsigned types = mr_schema_types(type, &integer);
        if (types == 0)
            mr_schema_fail(schema, MR_INVALID_REQUEST, node, "type",
                           "must be the name of a JSON type or an array of names");
        typed = true;
        facts->types &= types;
        facts->integer |= integer;
    }
    if (!typed && implied != 0) facts->types &= implied;
}

const struct mr_decimal *mr_schema_decimal(struct mr_schema *schema,
                                           const struct mr_json_value *number)
{
    char scratch[32];
    struct mr_decimal *decimal = mr_expr_take(schema->builder, 1, sizeof *decimal);
    if (decimal && mr_decimal_read(decimal, mr_json_number_text(number, scratch))) return decimal;
    if (decimal)
        mr_schema_fail(schema, MR_UNSUPPORTED, number, NULL, "is a number of too many digits");
    return NULL;
}

static bool is_number(const struct mr_json_value *value)
{
    return value && mr_schema_type_of(value) == MR_TYPE_NUMBER;
}

static void merge_bound(struct mr_schema *schema, const struct mr_json_value *node,
                        const char *keyword, struct mr_schema_facts *facts)
{
    const struct mr_json_value *value = mr_json_get(node, keyword);
    bool lower = strcmp(keyword, "minimum") == 0 || strcmp(keyword, "exclusiveMinimum") == 0;
    bool exclusive = strncmp(keyword, "exclusive", 9) == 0;
    if (!value) return;
    if (!is_number(value)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, keyword, "must be a number");
        return;
    }
    const struct mr_decimal *bound = mr_schema_decimal(schema, value);
    const struct mr_decimal **kept = lower ? &facts->min : &facts->max;
    if (!bound) return;
    int order = *kept ? mr_decimal_compare(bound, *kept) : 0;
    if (*kept && (lower ? order < 0 : order > 0)) return;
    if (*kept && order == 0 && !exclusive) return;
    *kept = bound;
    *(lower ? &facts->above_min : &facts->below_max) = exclusive;
}

/* Reads multipleOf as *step / 10^*places. False: it is not positive, or has more than 15 digits. */
static bool read_step(struct mr_schema *schema, const struct mr_json_value *value, uint64_t *step,
                      uint32_t *places)
{
    const struct mr_decimal *decimal = is_number(value) ? mr_schema_decimal(schema, value) : NULL;
    *step = 0;
    if (!decimal || decimal->negative ||
        decimal->whole_length + decimal->fraction_length > MULTIPLE_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < decimal->whole_length; i++)
        *step = *step * 10 + (uint64_t)(decimal->whole[i] - '0');
    for (size_t i = 0; i < decimal->fraction_length; i++)
        *step = *step * 10 + (uint64_t)(decimal->fraction[i] - '0');
    *places = (uint32_t)decimal->fraction_length;
    return *step > 0;
}

/* Sets *step to the least common multiple of both. False: it has too many digits. */
static bool join_steps(uint64_t *step, uint32_t *places, uint64_t other, uint32_t other_places)
{
    for (; *places < other_places; ++*places)
        if ((*step *= 10) > MULTIPLE_MAX) return false;
    for (; other_places < *places; other_places++)
        if ((other *= 10) > MULTIPLE_MAX) return false;
    uint64_t a = *step, b = other;
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    if (*step / a > MULTIPLE_MAX / other) return false;
    *step = *step / a * other;
    for (; *places > 0 && *step % 10 == 0; --*places)
        *step /= 10;
    return true;
}

static void merge_multiple(struct mr_schema *schema, const struct mr_json_value *node,
                           struct mr_schema_facts *facts)
{
    uint64_t step = 0;
    uint32_t places = 0;
    const struct mr_json_value *value = mr_json_get(node, "multipleOf");
    if (!value) return;
    double number = 0;
    if (!is_number(value) || (mr_json_number(value, &number) && number <= 0)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, "multipleOf", "must be a positive number");
        return;
    }
    bool fits = read_step(schema, value, &step, &places);
    if (fits && facts->multiple > 0)
        fits = join_steps(&step, &places, facts->multiple, facts->multiple_places);
    uint64_t significant = step;
    while (fits && places == 0 && significant % 10 == 0)
        significant /= 10;
    if (!fits || significant > MULTIPLE_SIGNIFICANT_MAX) {
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "multipleOf",
                       "is supported if its digits, without zeros at the ends, are at most 2000");
        return;
    }
    facts->multiple = step;
    facts->multiple_places = places;
    facts->integer |= places == 0;
}

/* Reads a keyword whose value is a count. minimum: keeps the largest value, otherwise the smallest.
 */
static void merge_count(struct mr_schema *schema, const struct mr_json_value *node,
                        const char *keyword, bool minimum, uint32_t *count)
{
    double number;
    const struct mr_json_value *value = mr_json_get(node, keyword);
    if (!value) return;
    if (!mr_json_number(value, &number) || number < 0 || number != floor(number)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, keyword,
                       "must be an integer of at least 0");
        return;
    }
    uint32_t read = number > MR_EXPR_COUNT_MAX ? MR_EXPR_UNBOUNDED : (uint32_t)number;
    if (minimum && read == MR_EXPR_UNBOUNDED)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, keyword, "is too large");
    if (minimum ? read > *count : read < *count) *count = read;
}

void mr_schema_merge(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                     struct mr_schema_facts *facts)
{
    *facts = (struct mr_schema_facts){.types = MR_TYPE_ALL,
                                      .length_max = MR_EXPR_UNBOUNDED,
                                      .items_max = MR_EXPR_UNBOUNDED,
                                      .properties_max = MR_EXPR_UNBOUNDED};
    merge_types(schema, conjunction, facts);
    for (uint32_t i = 0; i < conjunction->count && mr_expr_work(schema->builder, 200); i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        merge_bound(schema, node, "minimum", facts);
        merge_bound(schema, node, "maximum", facts);
        merge_bound(schema, node, "exclusiveMinimum", facts);
        merge_bound(schema, node, "exclusiveMaximum", facts);
        merge_multiple(schema, node, facts);
        merge_count(schema, node, "minLength", true, &facts->length_min);
        merge_count(schema, node, "maxLength", false, &facts->length_max);
        merge_count(schema, node, "minItems", true, &facts->items_min);
        merge_count(schema, node, "maxItems", false, &facts->items_max);
        merge_count(schema, node, "minProperties", true, &facts->properties_min);
        merge_count(schema, node, "maxProperties", false, &facts->properties_max);
    }
}
