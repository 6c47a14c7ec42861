/* Keywords that leave a choice: anyOf, oneOf, if, dependentSchemas, and the negation of a schema,
 * which violates one of its keywords. A conjunction is compiled once for each outcome.
 *
 * The outcomes need not cover every valid value. Left out are those that no automaton can check:
 * violating additionalProperties, patternProperties, propertyNames, uniqueItems, multipleOf, format
 * and the like, and values that satisfy two alternatives of a negated oneOf. */
#include "codec/constraint/schema_state.h"

#include <string.h>

#define ALTERNATIVES_MAX 1024u

const char MR_PRESENT[] = "present";

struct choice {
    const char *keyword;               /* NULL: a schema must be violated */
    const struct mr_json_value *group; /* the keyword's value, or the schema to violate */
    const struct mr_json_value *owner; /* the schema that has the keyword; NULL for violations */
    uint32_t parent;                   /* the owner's index among the nodes */
    size_t count;                      /* number of alternatives */
    struct mr_text name;               /* of dependentSchemas and the like: the property */
    struct mr_condition *violations;   /* [count] the keywords to violate */
    /* oneOf: a property that distinguishes an alternative, and must therefore be present */
    struct mr_text *tags; /* [count] */
    bool *overlaps;       /* [count * count] the two alternatives may both hold */
};

/* ---- violations ---- */

static void violate(struct choice *choice, const char *keyword, const struct mr_json_value *value,
                    struct mr_text name)
{
    choice->violations[choice->count++] = (struct mr_condition){keyword, value, name};
}

/* One way to violate enum and const is to be a number below or above all of theirs. */
static void violate_numbers(struct mr_schema *schema, const struct mr_json_value *node,
                            struct choice *choice)
{
    const struct mr_json_value *ends[2] = {NULL, NULL};
    const struct mr_decimal *bounds[2] = {NULL, NULL};
    for (size_t i = 0; i < mr_schema_constants(node); i++) {
        const struct mr_json_value *value = mr_schema_constant(node, i);
        if (mr_schema_type_of(value) != MR_TYPE_NUMBER) continue;
        const struct mr_decimal *number = mr_schema_decimal(schema, value);
        for (unsigned k = 0; number && k < 2; k++) {
            int order = bounds[k] ? mr_decimal_compare(number, bounds[k]) : 0;
            if (bounds[k] && (k == 0 ? order >= 0 : order <= 0)) continue;
            bounds[k] = number;
            ends[k] = value;
        }
    }
    if (!ends[0]) return;
    violate(choice, "minimum", ends[0], (struct mr_text){NULL, 0});
    violate(choice, "maximum", ends[1], (struct mr_text){NULL, 0});
}

/* Adds the ways to violate a keyword whose value is an array or a map of schemas or names. False
 * for another keyword. */
static bool violate_parts(struct choice *choice, struct mr_json_member keyword)
{
    const struct mr_json_value *value = keyword.value;
    struct mr_json_member member = {0};
    bool all = mr_text_is(keyword.name, "allOf"), items = mr_text_is(keyword.name, "prefixItems");
    bool required = mr_text_is(keyword.name, "required");
    if (mr_text_is(keyword.name, "properties")) {
        while (mr_json_kind(value) == MR_JSON_OBJECT && mr_json_next(value, &member))
            violate(choice, "properties", member.value, member.name);
        return true;
    }
    for (size_t i = 0; (all || items || required) && i < mr_json_count(value); i++) {
        struct mr_text name = {NULL, i};
        if (required && !mr_json_text(mr_json_at(value, i), &name)) continue;
        violate(choice, all ? NULL : items ? "items" : "required", mr_json_at(value, i), name);
    }
    return all || items || required;
}

static void violate_keyword(struct mr_schema *schema, const struct mr_json_value *node,
                            struct mr_json_member keyword, struct choice *choice)
{
    static const char *const simple[] = {"type",
                                         "minimum",
                                         "maximum",
                                         "exclusiveMinimum",
                                         "exclusiveMaximum",
                                         "minLength",
                                         "maxLength",
                                         "minItems",
                                         "maxItems",
                                         "minProperties",
                                         "maxProperties",
                                         "pattern",
                                         "anyOf",
                                         "oneOf",
                                         "not",
                                         "enum",
                                         "const"};
    const size_t prefix = mr_json_count(mr_json_get(node, "prefixItems"));
    const bool counts = mr_json_get(node, "minContains") || mr_json_get(node, "maxContains");
    if (violate_parts(choice, keyword)) return;
    if (mr_text_is(keyword.name, "$ref"))
        violate(choice, NULL, mr_schema_target(schema, node), keyword.name);
    else if (mr_text_is(keyword.name, "then") || mr_text_is(keyword.name, "else"))
        violate(choice, keyword.name.bytes[0] == 't' ? "then" : "else", node, keyword.name);
    else if (mr_text_is(keyword.name, "items") && mr_json_kind(keyword.value) != MR_JSON_ARRAY)
        violate(choice, "items", keyword.value, (struct mr_text){NULL, prefix});
    else if (mr_text_is(keyword.name, "contains") && !counts)
        violate(choice, "contains", keyword.value, (struct mr_text){NULL, 0});
    for (size_t i = 0; i < sizeof simple / sizeof simple[0]; i++)
        if (mr_text_is(keyword.name, simple[i]))
            violate(choice, simple[i], keyword.value, (struct mr_text){NULL, 0});
}

static void list_violations(struct mr_schema *schema, struct choice *choice)
{
    const struct mr_json_value *node = choice->group;
    struct mr_json_member member = {0};
    size_t capacity = 2;
    while (mr_json_next(node, &member))
        capacity += 1 + mr_json_count(member.value);
    choice->violations = mr_expr_take(schema->builder, capacity, sizeof *choice->violations);
    if (!choice->violations) return;
    member = (struct mr_json_member){0};
    while (mr_json_next(node, &member))
        violate_keyword(schema, node, member, choice);
    violate_numbers(schema, node, choice);
    member = (struct mr_json_member){0};
    while (choice->count == 0 && mr_json_next(node, &member))
        if (mr_schema_keyword_type(member.name.bytes))
            mr_schema_fail(schema, MR_UNSUPPORTED, node, member.name.bytes, "cannot be negated");
}

/* ---- oneOf ---- */

/* Finds what keeps the alternatives apart, since exactly one may hold. */
static void compare_alternatives(struct mr_schema *schema, struct choice *choice)
{
    const size_t count = choice->count;
    choice->tags = mr_expr_take(schema->builder, count, sizeof *choice->tags);
    choice->overlaps = mr_expr_take(schema->builder, count * count, sizeof(bool));
    if (!choice->tags || !choice->overlaps) return;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && mr_expr_work(schema->builder, 20); j++) {
            const struct mr_json_value *one = mr_json_at(choice->group, i);
            const struct mr_json_value *other = mr_json_at(choice->group, j);
            struct mr_text tag;
            if (mr_schema_disjoint(schema, one, other, 0)) continue;
            bool tagged = mr_schema_tag(schema, one, other, &tag);
            struct mr_text *tags[2] = {&choice->tags[i], &choice->tags[j]};
            for (unsigned k = 0; tagged && k < 2; k++)
                tagged = !tags[k]->bytes || mr_text_equal(*tags[k], tag);
            if (tagged) *tags[0] = *tags[1] = tag;
            choice->overlaps[i * count + j] = choice->overlaps[j * count + i] = !tagged;
        }
}

static void add_one_of(struct mr_schema *schema, struct mr_conjunction *with,
                       const struct choice *choice, size_t index)
{
    mr_conjunction_add(schema, with, mr_json_at(choice->group, index), choice->parent);
    if (choice->tags[index].bytes)
        mr_conjunction_demand(schema, with,
                              (struct mr_condition){MR_PRESENT, NULL, choice->tags[index]});
    for (size_t i = 0; i < choice->count; i++)
        if (choice->overlaps[index * choice->count + i])
            mr_conjunction_deny(schema, with, mr_json_at(choice->group, i));
}

/* ---- choices ---- */

static bool is_taken(const struct mr_conjunction *conjunction, const struct mr_json_value *group)
{
    for (uint32_t i = 0; i < conjunction->taken_count; i++)
        if (conjunction->taken[i] == group) return true;
    return false;
}

/* Finds a choice that a node leaves. */
static bool find_in_node(const struct mr_conjunction *conjunction, uint32_t index,
                         struct choice *choice)
{
    static const char *const groups[] = {"anyOf", "oneOf"};
    static const char *const dependents[] = {"dependentSchemas", "dependentRequired",
                                             "dependencies"};
    const struct mr_json_value *node = conjunction->nodes[index];
    *choice = (struct choice){.owner = node, .parent = index, .count = 2};
    for (unsigned i = 0; i < 2; i++) {
        choice->keyword = groups[i];
        choice->group = mr_json_get(node, groups[i]);
        choice->count = mr_json_count(choice->group);
        if (choice->group && !is_taken(conjunction, choice->group)) return true;
    }
    choice->count = 2;
    choice->keyword = "if";
    choice->group = node;
    if (mr_json_get(node, "if") && (mr_json_get(node, "then") || mr_json_get(node, "else")) &&
        !is_taken(conjunction, node))
        return true;
    for (unsigned i = 0; i < 3; i++) {
        const struct mr_json_value *map = mr_json_get(node, dependents[i]);
        struct mr_json_member member = {0};
        choice->keyword = dependents[i];
        while (map && mr_json_kind(map) == MR_JSON_OBJECT && mr_json_next(map, &member)) {
            choice->group = member.value;
            choice->name = member.name;
            if (mr_json_kind(member.value) != MR_JSON_BOOL && !is_taken(conjunction, member.value))
                return true;
        }
    }
    return false;
}

static void add_dependent(struct mr_schema *schema, struct mr_conjunction *with,
                          const struct choice *choice, bool present)
{
    struct mr_condition condition = {present ? MR_PRESENT : "required", NULL, choice->name};
    mr_conjunction_demand(schema, with, condition);
    if (!present) return;
    if (mr_json_kind(choice->group) == MR_JSON_OBJECT)
        mr_conjunction_add(schema, with, choice->group, choice->parent);
    for (size_t i = 0;
         mr_json_kind(choice->group) == MR_JSON_ARRAY && i < mr_json_count(choice->group); i++)
        if (mr_json_text(mr_json_at(choice->group, i), &condition.name))
            mr_conjunction_demand(schema, with, condition);
}

/* holds: the value satisfies `if` and `branch`, or violates both. */
static void add_if(struct mr_schema *schema, struct mr_conjunction *with,
                   const struct mr_json_value *node, uint32_t parent, bool holds)
{
    const struct mr_json_value *branch = mr_json_get(node, holds ? "then" : "else");
    if (holds)
        mr_conjunction_add(schema, with, mr_json_get(node, "if"), parent);
    else
        mr_conjunction_deny(schema, with, mr_json_get(node, "if"));
    if (branch) mr_conjunction_add(schema, with, branch, parent);
}

static void add_violation(struct mr_schema *schema, struct mr_conjunction *with,
                          struct mr_condition violation)
{
    const char *keyword = violation.keyword;
    if (!keyword) {
        mr_conjunction_deny(schema, with, violation.value);
    } else if (strcmp(keyword, "anyOf") == 0 || strcmp(keyword, "oneOf") == 0) {
        for (size_t i = 0; i < mr_json_count(violation.value); i++)
            mr_conjunction_deny(schema, with, mr_json_at(violation.value, i));
    } else if (strcmp(keyword, "not") == 0) {
        mr_conjunction_add(schema, with, violation.value, UINT32_MAX);
    } else if (strcmp(keyword, "then") == 0 || strcmp(keyword, "else") == 0) {
        const struct mr_json_value *condition = mr_json_get(violation.value, "if");
        if (!condition)
            with->never = true;
        else if (keyword[0] == 't')
            mr_conjunction_add(schema, with, condition, UINT32_MAX);
        else
            mr_conjunction_deny(schema, with, condition);
        mr_conjunction_deny(schema, with, mr_json_get(violation.value, keyword));
    } else {
        mr_conjunction_demand(schema, with, violation);
    }
}

static void add_outcome(struct mr_schema *schema, struct mr_conjunction *with,
                        const struct choice *choice, size_t index)
{
    if (!choice->keyword)
        add_violation(schema, with, choice->violations[index]);
    else if (strcmp(choice->keyword, "anyOf") == 0)
        mr_conjunction_add(schema, with, mr_json_at(choice->group, index), choice->parent);
    else if (strcmp(choice->keyword, "oneOf") == 0)
        add_one_of(schema, with, choice, index);
    else if (strcmp(choice->keyword, "if") == 0)
        add_if(schema, with, choice->owner, choice->parent, index == 0);
    else
        add_dependent(schema, with, choice, index == 1);
}

/* Finds the next choice and lists its outcomes. */
static bool find(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                 struct choice *choice, uint32_t *condition)
{
    for (uint32_t i = 0; i < conjunction->count; i++)
        if (find_in_node(conjunction, i, choice)) {
            bool groups = strstr(choice->keyword, "Of") != NULL;
            if (groups && (mr_json_kind(choice->group) != MR_JSON_ARRAY || choice->count == 0 ||
                           choice->count > ALTERNATIVES_MAX))
                mr_schema_fail(schema, MR_INVALID_REQUEST, choice->owner, choice->keyword,
                               "must be an array of 1 to 1024 schemas");
            else if (strcmp(choice->keyword, "oneOf") == 0)
                compare_alternatives(schema, choice);
            return true;
        }
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        if (conjunction->conditions[i].keyword) continue;
        *condition = i;
        *choice = (struct choice){.group = conjunction->conditions[i].value};
        list_violations(schema, choice);
        return true;
    }
    return false;
}

bool mr_schema_choose(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                      const struct mr_expr **out)
{
    struct choice choice;
    uint32_t condition = 0;
    *out = mr_expr_never();
    if (!find(schema, conjunction, &choice, &condition)) return false;
    const struct mr_expr **items = mr_expr_take(schema->builder, choice.count + 1, sizeof *items);
    if (choice.keyword && conjunction->taken_count == MR_CONJUNCTION_MAX)
        mr_schema_fail(schema, MR_UNSUPPORTED, choice.owner, choice.keyword,
                       "more than 48 choices apply at one place");
    for (size_t i = 0; i < choice.count && schema->builder->status == MR_OK; i++) {
        struct mr_conjunction with = *conjunction;
        if (choice.keyword)
            with.taken[with.taken_count++] = choice.group;
        else
            with.conditions[condition].keyword = "";
        add_outcome(schema, &with, &choice, i);
        items[i] = schema->body(schema, &with);
    }
    if (schema->builder->status == MR_OK)
        *out = mr_expr_alt(schema->builder, items, (uint32_t)choice.count);
    return true;
}
