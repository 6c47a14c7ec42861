/* Objects. Properties come in the order in which the schemas name them. Properties without a name
 * in the schemas come last, and only if additionalProperties, unevaluatedProperties or
 * patternProperties is given, or the schemas name no property at all. */
#include "codec/constraint/schema_state.h"
#include "codec/grammar/nfa.h"

struct object {
    struct mr_schema *schema;
    const struct mr_conjunction *conjunction;
    const struct mr_expr **members; /* [member_max + 3] the items of mr_expr_list */
    bool *optional;
    struct mr_text *names; /* [name_count] all names that the schemas mention */
    uint32_t member_count, required_count, name_count, capacity;
    struct mr_text *patterns;         /* [pattern_count] the different names of patternProperties */
    const struct mr_expr **languages; /* [pattern_count] the names that match them */
    uint32_t pattern_count;
    const struct mr_expr *allowed; /* names that propertyNames allows, with quotes; NULL: all */
    bool never;                    /* a required property has no valid value */
};

/* Which names a member may have. */
struct names {
    struct mr_text name; /* this name; bytes NULL: names that are not mentioned */
    uint32_t pattern;    /* of these, those that match only this pattern; UINT32_MAX: none */
};

static bool contains_text(struct object *object, const struct mr_expr *language,
                          const struct mr_expr *text)
{
    struct mr_expr_builder *builder = object->schema->builder;
    return !mr_expr_is_empty(builder, mr_expr_and(builder, text, language));
}

/* Adds the schemas of patternProperties of a node for these names; false if there are none. */
static bool add_patterns(struct object *object, const struct mr_json_value *node,
                         struct names names, struct mr_conjunction *value)
{
    const struct mr_json_value *patterns = mr_json_get(node, "patternProperties");
    struct mr_json_member member = {0};
    bool found = false;
    while (patterns && mr_json_kind(patterns) == MR_JSON_OBJECT && mr_json_next(patterns, &member))
        for (uint32_t i = 0; i < object->pattern_count; i++) {
            if (!mr_text_equal(object->patterns[i], member.name)) continue;
            if (names.name.bytes ? !contains_text(object, object->languages[i],
                                                  mr_expr_text(object->schema->builder, names.name,
                                                               MR_SPELL_JSON))
                                 : i != names.pattern)
                continue;
            found = true;
            mr_conjunction_add(object->schema, value, member.value, UINT32_MAX);
        }
    return found;
}

/* The value of a property under all nodes. */
static const struct mr_expr *property(struct object *object, struct names names)
{
    const struct mr_conjunction *conjunction = object->conjunction;
    struct mr_schema *schema = object->schema;
    struct mr_conjunction value = {.count = 0};
    bool speaks[MR_CONJUNCTION_MAX] = {false};
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        const struct mr_json_value *at = NULL;
        if (names.name.bytes) at = mr_json_get_text(mr_json_get(node, "properties"), names.name);
        speaks[i] = add_patterns(object, node, names, &value) || at;
        if (!speaks[i]) at = mr_json_get(node, "additionalProperties");
        speaks[i] |= at != NULL;
        if (at) mr_conjunction_add(schema, &value, at, UINT32_MAX);
    }
    for (uint32_t i = 0; names.name.bytes && i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if (!at->name.bytes || !mr_text_equal(at->name, names.name)) continue;
        if (mr_condition_is(at, "required")) value.never = true;
        if (mr_condition_is(at, "properties")) mr_conjunction_deny(schema, &value, at->value);
    }
    mr_conjunction_add_unevaluated(schema, conjunction, "unevaluatedProperties", speaks, &value);
    if (names.name.bytes && object->allowed &&
        !contains_text(object, object->allowed, mr_schema_quoted(schema, names.name)))
        value.never = true;
    return schema->value(schema, &value);
}

/* True if a node or a condition requires the property; draft 3 does so in the property's schema. */
static bool is_required(const struct object *object, struct mr_text name)
{
    const struct mr_conjunction *conjunction = object->conjunction;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *list = mr_json_get(conjunction->nodes[i], "required");
        const struct mr_json_value *own =
            mr_json_get_text(mr_json_get(conjunction->nodes[i], "properties"), name);
        bool required = false;
        if (mr_json_bool(mr_json_get(own, "required"), &required) && required) return true;
        for (size_t k = 0; k < mr_json_count(list); k++) {
            struct mr_text text;
            if (!mr_expr_work(object->schema->builder, 1)) return false;
            if (mr_json_text(mr_json_at(list, k), &text) && mr_text_equal(text, name)) return true;
        }
    }
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if ((at->keyword == MR_PRESENT || mr_condition_is(at, "properties")) &&
            mr_text_equal(at->name, name))
            return true;
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
    const struct mr_expr *parts[3] = {mr_schema_quoted(schema, name), mr_schema_colon(schema),
                                      property(object, (struct names){name, UINT32_MAX})};
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
        const enum mr_json_kind kind = required ? mr_json_kind(required) : MR_JSON_BOOL;
        bool valid = kind == MR_JSON_ARRAY || kind == MR_JSON_BOOL;
        for (size_t k = 0; k < mr_json_count(required) && schema->builder->status == MR_OK; k++) {
            struct mr_text name;
            valid = valid && mr_json_text(mr_json_at(required, k), &name);
            if (valid) add_member(object, name);
        }
        if (!valid)
            mr_schema_fail(schema, MR_INVALID_REQUEST, conjunction->nodes[i], "required",
                           "must be an array of names");
    }
    for (uint32_t i = 0; i < conjunction->condition_count; i++)
        if (conjunction->conditions[i].name.bytes)
            add_member(object, conjunction->conditions[i].name);
}

/* Lists the patterns of patternProperties and the names that propertyNames allows. */
static void add_name_rules(struct object *object)
{
    struct mr_schema *schema = object->schema;
    const struct mr_conjunction *conjunction = object->conjunction;
    struct mr_conjunction allowed = {.count = 0};
    size_t capacity = 1;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *names = mr_json_get(conjunction->nodes[i], "propertyNames");
        if (names) mr_conjunction_add(schema, &allowed, names, UINT32_MAX);
        capacity += mr_json_count(mr_json_get(conjunction->nodes[i], "patternProperties"));
    }
    object->patterns = mr_expr_take(schema->builder, capacity, sizeof *object->patterns);
    object->languages = mr_expr_take(schema->builder, capacity, sizeof *object->languages);
    for (uint32_t i = 0; object->languages && i < conjunction->count; i++) {
        const struct mr_json_value *map = mr_json_get(conjunction->nodes[i], "patternProperties");
        struct mr_json_member member = {0};
        while (map && mr_json_kind(map) == MR_JSON_OBJECT && mr_json_next(map, &member)) {
            uint32_t at = 0;
            while (at < object->pattern_count && !mr_text_equal(object->patterns[at], member.name))
                at++;
            if (at < object->pattern_count) continue;
            object->patterns[at] = member.name;
            object->languages[at] =
                mr_schema_pattern(schema, map, NULL, member.name, MR_REGEX_SEARCH);
            object->pattern_count++;
        }
    }
    schema->texts_only = true;
    if (allowed.count > 0 || allowed.never) object->allowed = schema->value(schema, &allowed);
    schema->texts_only = false;
}

/* True if the answer may have properties that no schema names: a node allows them explicitly or no
 * node names any property, and no node forbids them. */
static bool is_open(const struct object *object)
{
    bool open = true, allowed, explicitly = object->pattern_count > 0;
    for (uint32_t i = 0; i < object->conjunction->count; i++) {
        const struct mr_json_value *node = object->conjunction->nodes[i];
        const struct mr_json_value *additional = mr_json_get(node, "additionalProperties");
        if (mr_json_bool(additional, &allowed) && !allowed && object->pattern_count == 0)
            return false;
        explicitly |= additional || mr_json_get(node, "unevaluatedProperties");
        if (mr_json_get(node, "properties") || mr_json_count(mr_json_get(node, "required")) > 0)
            open = false;
    }
    return open || explicitly;
}

/* The names that no schema mentions and that match one pattern (its index) or none, with quotes. */
static const struct mr_expr *other_names(struct object *object, uint32_t pattern)
{
    struct mr_schema *schema = object->schema;
    struct mr_expr_builder *builder = schema->builder;
    const uint32_t count = object->name_count + object->pattern_count;
    if (count == 0) return object->allowed ? object->allowed : mr_schema_any_string(schema);
    const struct mr_expr **without = mr_expr_take(builder, count, sizeof *without);
    if (!without) return mr_expr_never();
    for (uint32_t i = 0; i < object->name_count; i++)
        without[i] = mr_expr_text(builder, object->names[i], MR_SPELL_JSON);
    for (uint32_t i = 0; i < object->pattern_count; i++)
        without[object->name_count + i] = i == pattern ? mr_expr_never() : object->languages[i];
    const struct mr_expr *names = mr_expr_minus(
        builder,
        pattern < object->pattern_count ? object->languages[pattern] : mr_schema_any_text(schema),
        mr_expr_alt(builder, without, count));
    names = mr_schema_in_quotes(schema, names);
    return object->allowed ? mr_expr_and(builder, names, object->allowed) : names;
}

/* A member with a name that no schema mentions. Names that match several patterns are left out. */
static const struct mr_expr *extra_member(struct object *object)
{
    struct mr_schema *schema = object->schema;
    struct mr_expr_builder *builder = schema->builder;
    const struct mr_expr **items = mr_expr_take(builder, object->pattern_count + 1u, sizeof *items);
    for (uint32_t i = 0; items && i <= object->pattern_count; i++) {
        const struct mr_expr *value =
            property(object, (struct names){{NULL, 0}, i < object->pattern_count ? i : UINT32_MAX});
        const struct mr_expr *parts[3] = {mr_expr_never(), mr_schema_colon(schema), value};
        if (value->kind != MR_EXPR_NEVER) parts[0] = other_names(object, i);
        if (mr_expr_is_empty(builder, parts[0])) parts[0] = mr_expr_never();
        items[i] = mr_expr_seq(builder, parts, 3);
    }
    return items ? mr_expr_alt(builder, items, object->pattern_count + 1u) : mr_expr_never();
}

/* Makes the members: the named ones, and then others. A name could be repeated among the others, so
 * at most one of them can be required, and only if all named ones cannot be enough. */
static const struct mr_expr *add_tail(struct object *object, const struct mr_schema_facts *facts)
{
    struct mr_schema *schema = object->schema;
    struct mr_expr_builder *builder = schema->builder;
    const uint32_t count = object->member_count, max = facts->properties_max;
    uint32_t min = facts->properties_min, others = 0;
    const struct mr_expr *extra = is_open(object) ? extra_member(object) : mr_expr_never();
    if (min == count + 1 && extra->kind != MR_EXPR_NEVER) {
        min--;
        others = 1;
    }
    if (min > count && extra->kind != MR_EXPR_NEVER)
        mr_schema_fail(schema, MR_UNSUPPORTED, object->conjunction->nodes[0], "minProperties",
                       "cannot be guaranteed with unnamed properties");
    uint32_t most = extra->kind == MR_EXPR_NEVER ? 0
                    : max == MR_EXPR_UNBOUNDED   ? max
                    : max > count                ? max - count
                                                 : 0;
    if (builder->status != MR_OK || min > count || others > most) return mr_expr_never();
    const struct mr_expr *more = mr_expr_pair(builder, mr_schema_comma(schema), extra);
    object->members[count] = mr_schema_comma(schema);
    object->members[count + 1] = mr_schema_separated(schema, extra, others, most);
    object->members[count + 2] = mr_expr_repeat(builder, more, others, most);
    return mr_expr_list(builder, object->members, object->optional, count, min, max);
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
    names += conjunction->condition_count;
    object.capacity = names > MR_PROPERTIES_MAX ? MR_PROPERTIES_MAX : (uint32_t)names;
    object.members = mr_expr_take(builder, object.capacity + 3u, sizeof *object.members);
    object.optional = mr_expr_take(builder, object.capacity + 1u, sizeof *object.optional);
    object.names = mr_expr_take(builder, object.capacity + 1u, sizeof *object.names);
    if (!object.members || !object.optional || !object.names) return mr_expr_never();
    add_name_rules(&object);
    add_members(&object);
    if (builder->status != MR_OK || object.never) return mr_expr_never();
    return mr_schema_bracketed(schema, "{", add_tail(&object, facts), "}");
}
