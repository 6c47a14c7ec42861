/* From schema objects to conjunctions: allOf, keywords, and the combined bounds of several schemas.
 */
#include "codec/constraint/schema_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MULTIPLE_DIGITS_MAX      15u
#define MULTIPLE_MAX             999999999999999u
#define MULTIPLE_SIGNIFICANT_MAX 2000u

/* ---- keywords ---- */

/* Keywords of draft 2020-12 and earlier drafts that restrict values in a way that is not
 * implemented. Any other keyword that is neither listed here nor implemented is an annotation. */
static const char *const refused[] = {"$recursiveRef"};

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
    if (mr_json_get(node, "$ref") && mr_json_get(node, "$dynamicRef"))
        mr_schema_fail(schema, MR_UNSUPPORTED, node, "$dynamicRef",
                       "is not supported together with $ref");
    mr_expr_work(schema->builder, 100);
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

/* True if the value violates the whole schema, whether the keyword is chosen yet or not. */
static bool is_denied(const struct mr_conjunction *conjunction, const struct mr_json_value *node)
{
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if (at->value == node && (!at->keyword || !*at->keyword)) return true;
    }
    return false;
}

void mr_conjunction_demand(struct mr_schema *schema, struct mr_conjunction *conjunction,
                           struct mr_condition condition)
{
    for (uint32_t i = 0; i < conjunction->condition_count; i++)
        if (memcmp(&conjunction->conditions[i], &condition, sizeof condition) == 0) return;
    if (conjunction->condition_count < MR_CONDITIONS_MAX)
        conjunction->conditions[conjunction->condition_count++] = condition;
    else
        mr_schema_fail(schema, MR_UNSUPPORTED, condition.value, NULL,
                       "more than 24 conditions of not, if, oneOf and the like at one place");
}

void mr_conjunction_deny(struct mr_schema *schema, struct mr_conjunction *conjunction,
                         const struct mr_json_value *node)
{
    if (schema->builder->status != MR_OK) return;
    if (is_true(node) || has_node(conjunction, node)) conjunction->never = true;
    if (is_true(node) || is_false(node) || is_denied(conjunction, node)) return;
    if (mr_json_kind(node) == MR_JSON_OBJECT)
        mr_conjunction_demand(schema, conjunction,
                              (struct mr_condition){NULL, node, (struct mr_text){NULL, 0}});
    else
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, NULL,
                       "a schema must be an object or a boolean");
}

/* Adds what dependentSchemas says without a choice: a property whose schema is false is absent. */
static void add_forbidden(struct mr_schema *schema, struct mr_conjunction *conjunction,
                          const struct mr_json_value *node)
{
    static const char *const keywords[] = {"dependentSchemas", "dependencies"};
    for (unsigned i = 0; i < 2; i++) {
        const struct mr_json_value *map = mr_json_get(node, keywords[i]);
        struct mr_json_member member = {0};
        while (map && mr_json_kind(map) == MR_JSON_OBJECT && mr_json_next(map, &member))
            if (is_false(member.value))
                mr_conjunction_demand(schema, conjunction,
                                      (struct mr_condition){"required", NULL, member.name});
    }
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
    if (is_denied(conjunction, node)) conjunction->never = true;
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
    const struct mr_json_value *without = mr_json_get(node, "not");
    if (without) mr_conjunction_deny(schema, conjunction, without);
    add_forbidden(schema, conjunction, node);
}

void mr_conjunction_add_unevaluated(struct mr_schema *schema,
                                    const struct mr_conjunction *conjunction, const char *keyword,
                                    const bool *speaks, struct mr_conjunction *value)
{
    for (uint32_t u = 0; u < conjunction->count; u++) {
        const struct mr_json_value *at = mr_json_get(conjunction->nodes[u], keyword);
        bool evaluated = at == NULL;
        for (uint32_t i = 0; i < conjunction->count && !evaluated; i++) {
            uint32_t above = i;
            while (above != u && conjunction->parents[above] != above)
                above = conjunction->parents[above];
            evaluated = above == u &&
                        (speaks[i] || (i != u && mr_json_get(conjunction->nodes[i], keyword)));
        }
        if (!evaluated) mr_conjunction_add(schema, value, at, UINT32_MAX);
    }
}

bool mr_condition_is(const struct mr_condition *condition, const char *keyword)
{
    return condition->keyword && strcmp(condition->keyword, keyword) == 0;
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
                 {"object", MR_TYPE_OBJECT}, {"any", MR_TYPE_ALL}}; /* of draft 3 */
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

unsigned mr_schema_keyword_type(const char *keyword)
{
    static const struct {
        unsigned type;
        const char *keywords;
    } types[] = {
        {MR_TYPE_OBJECT,
         " properties required present additionalProperties minProperties maxProperties "
         "unevaluatedProperties patternProperties propertyNames dependentSchemas "
         "dependentRequired dependencies "},
        {MR_TYPE_ARRAY, " items prefixItems minItems maxItems contains uniqueItems additionalItems "
                        "unevaluatedItems "},
        {MR_TYPE_STRING, " minLength maxLength pattern format "},
        {MR_TYPE_NUMBER, " minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "}};
    char word[32];
    int length = snprintf(word, sizeof word, " %s ", keyword);
    if (length < 0 || (size_t)length >= sizeof word || strchr(keyword, ' ')) return 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strstr(types[i].keywords, word)) return types[i].type;
    return 0;
}

/* The types that the keywords of a schema without `type` apply to. */
static unsigned implied_types(const struct mr_json_value *node)
{
    unsigned types = 0;
    struct mr_json_member member = {0};
    while (mr_json_next(node, &member))
        types |= mr_schema_keyword_type(member.name.bytes);
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

/* Takes the constants that a value must not equal out of the types; those of texts stay. */
static void exclude_constants(const struct mr_condition *condition, struct mr_schema_facts *facts)
{
    bool flag, one = strcmp(condition->keyword, "const") == 0;
    for (size_t i = 0; i < (one ? 1 : mr_json_count(condition->value)); i++) {
        const struct mr_json_value *value =
            one ? condition->value : mr_json_at(condition->value, i);
        unsigned type = mr_schema_type_of(value);
        if (mr_json_bool(value, &flag))
            *(flag ? &facts->no_true : &facts->no_false) = true;
        else if (type != MR_TYPE_STRING)
            facts->types &= ~type;
    }
}

static void merge_conditions(const struct mr_conjunction *conjunction,
                             struct mr_schema_facts *facts)
{
    bool integer;
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if (!at->keyword || !*at->keyword) continue;
        const unsigned type = mr_schema_keyword_type(at->keyword);
        if (type) facts->types &= type;
        if (strcmp(at->keyword, "type") == 0) facts->types &= ~mr_schema_types(at->value, &integer);
        if (strcmp(at->keyword, "enum") == 0 || strcmp(at->keyword, "const") == 0)
            exclude_constants(at, facts);
    }
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

/* violated: the value violates this bound. */
static void merge_bound(struct mr_schema *schema, const struct mr_json_value *node,
                        const char *keyword, bool violated, struct mr_schema_facts *facts)
{
    const struct mr_json_value *value = violated ? node : mr_json_get(node, keyword);
    bool lower = (strstr(keyword, "inimum") != NULL) != violated;
    bool exclusive = (strncmp(keyword, "exclusive", 9) == 0) != violated;
    if (!value) return;
    if (!is_number(value)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, violated ? NULL : keyword,
                       "must be a number");
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

/* The keywords whose value is a count, and the fact that each sets. */
static const struct {
    const char *keyword;
    bool minimum; /* the largest value holds, otherwise the smallest */
    size_t least, most;
} counts[] = {
#define COUNT(keyword, minimum, name)                                                              \
    {                                                                                              \
        keyword, minimum, offsetof(struct mr_schema_facts, name##_min),                            \
            offsetof(struct mr_schema_facts, name##_max)                                           \
    }
    COUNT("minLength", true, length),         COUNT("maxLength", false, length),
    COUNT("minItems", true, items),           COUNT("maxItems", false, items),
    COUNT("minProperties", true, properties), COUNT("maxProperties", false, properties)};

/* violated: the value violates the count `index`, which `node` is; otherwise `node` is a schema. */
static void merge_count(struct mr_schema *schema, const struct mr_json_value *node, size_t index,
                        bool violated, struct mr_schema_facts *facts)
{
    double number;
    const char *keyword = violated ? NULL : counts[index].keyword;
    const struct mr_json_value *value = violated ? node : mr_json_get(node, keyword);
    if (!value) return;
    if (!mr_json_number(value, &number) || number < 0 || number != floor(number)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, keyword,
                       "must be an integer of at least 0");
        return;
    }
    const bool minimum = counts[index].minimum != violated;
    if (violated) number += minimum ? 1 : -1;
    if (number < 0) facts->types = 0; /* no length is below 0 */
    uint32_t read = number > MR_EXPR_COUNT_MAX ? MR_EXPR_UNBOUNDED : (uint32_t)fmax(number, 0);
    if (minimum && read == MR_EXPR_UNBOUNDED)
        mr_schema_fail(schema, MR_UNSUPPORTED, node, keyword, "is too large");
    uint32_t *count =
        (uint32_t *)(void *)((char *)facts + (minimum ? counts[index].least : counts[index].most));
    if (minimum ? read > *count : read < *count) *count = read;
}

void mr_schema_merge(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                     struct mr_schema_facts *facts)
{
    static const char *const bounds[] = {"minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum"};
    *facts = (struct mr_schema_facts){.types = MR_TYPE_ALL,
                                      .length_max = MR_EXPR_UNBOUNDED,
                                      .items_max = MR_EXPR_UNBOUNDED,
                                      .properties_max = MR_EXPR_UNBOUNDED};
    const uint32_t all = conjunction->count + conjunction->condition_count;
    merge_types(schema, conjunction, facts);
    merge_conditions(conjunction, facts);
    for (uint32_t i = 0; i < all && mr_expr_work(schema->builder, 200); i++) {
        const bool violated = i >= conjunction->count;
        const struct mr_condition *condition =
            violated ? &conjunction->conditions[i - conjunction->count] : NULL;
        const struct mr_json_value *node = violated ? condition->value : conjunction->nodes[i];
        if (violated && !condition->keyword) continue;
        for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++)
            if (!violated || strcmp(condition->keyword, bounds[k]) == 0)
                merge_bound(schema, node, bounds[k], violated, facts);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            if (!violated || strcmp(condition->keyword, counts[k].keyword) == 0)
                merge_count(schema, node, k, violated, facts);
        if (!violated) merge_multiple(schema, node, facts);
    }
}
