/* Texts, constants and white space. */
#include "codec/constraint/regex_front.h"
#include "codec/constraint/schema_state.h"

#include <string.h>

/* White space: nothing, one space, or a line end and up to 40 spaces and tabs. */
const struct mr_expr *mr_schema_space(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->indent == UINT32_MAX) {
        schema->indent = mr_expr_rule_add(builder, "indent");
        const struct mr_expr *one =
            mr_expr_either(builder, mr_expr_word(builder, " "), mr_expr_word(builder, "\t"));
        mr_expr_rule_define(builder, schema->indent, mr_expr_repeat(builder, one, 0, 40));
    }
    const struct mr_expr *items[3] = {
        mr_expr_empty(), mr_expr_word(builder, " "),
        mr_expr_pair(builder, mr_expr_word(builder, "\n"), mr_expr_ref(builder, schema->indent))};
    return mr_expr_alt(builder, items, 3);
}

/* ---- texts ---- */

static const struct mr_expr *in_quotes(struct mr_schema *schema, const struct mr_expr *inside)
{
    const struct mr_expr *quote = mr_expr_word(schema->builder, "\"");
    const struct mr_expr *items[3] = {quote, inside, quote};
    return mr_expr_seq(schema->builder, items, 3);
}

const struct mr_expr *mr_schema_quoted(struct mr_schema *schema, struct mr_text text)
{
    return in_quotes(schema, mr_expr_text(schema->builder, text, MR_SPELL_JSON));
}

/* Any character of a JSON string, with every escape except surrogates. */
static const struct mr_expr *any_character(struct mr_schema *schema)
{
    static const struct mr_char_range plain[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, MR_CODE_POINT_MAX}};
    static const struct mr_regex_options escapes = {MR_REGEX_WHOLE, MR_SPELL_TEXT, "escape"};
    static const char pattern[] =
        "\\\\([\"\\\\/bfnrt]|u([0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))";
    return mr_expr_either(
        schema->builder, mr_expr_class(schema->builder, plain, 3, MR_SPELL_TEXT),
        mr_regex_expr(schema->builder, (struct mr_text){pattern, sizeof pattern - 1}, &escapes));
}

static uint32_t character_rule(struct mr_schema *schema)
{
    if (schema->character == UINT32_MAX) {
        schema->character = mr_expr_rule_add(schema->builder, "character");
        mr_expr_rule_define(schema->builder, schema->character, any_character(schema));
    }
    return schema->character;
}

const struct mr_expr *mr_schema_any_string(struct mr_schema *schema)
{
    struct mr_expr_builder *builder = schema->builder;
    if (schema->string == UINT32_MAX) {
        schema->string = mr_expr_rule_add(builder, "string");
        mr_expr_rule_define(builder, schema->string,
                            in_quotes(schema, mr_expr_repeat(builder, any_character(schema), 0,
                                                             MR_EXPR_UNBOUNDED)));
    }
    return mr_expr_ref(builder, schema->string);
}

/* The intersection of pattern and format of all nodes; NULL if no node has one. */
static const struct mr_expr *text_language(struct mr_schema *schema,
                                           const struct mr_conjunction *conjunction)
{
    struct mr_expr_builder *builder = schema->builder;
    const struct mr_expr *all = NULL;
    for (uint32_t i = 0; i < conjunction->count && builder->status == MR_OK; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        const struct mr_json_value *keywords[2] = {mr_json_get(node, "pattern"),
                                                   mr_json_get(node, "format")};
        for (unsigned k = 0; k < 2; k++) {
            struct mr_text text;
            const struct mr_expr *one;
            if (!keywords[k]) continue;
            const char *keyword = k == 0 ? "pattern" : "format";
            if (!mr_json_text(keywords[k], &text)) {
                mr_schema_fail(schema, MR_INVALID_REQUEST, node, keyword, "must be a text");
                return mr_expr_never();
            }
            static const struct mr_regex_options search = {MR_REGEX_SEARCH, MR_SPELL_JSON,
                                                           "schema, keyword pattern"};
            one = k == 0 ? mr_regex_expr(builder, text, &search) : mr_schema_format(schema, text);
            if (!one) {
                mr_schema_fail(schema, MR_UNSUPPORTED, node, keyword, "unsupported format");
                return mr_expr_never();
            }
            all = all ? mr_expr_and(builder, all, one) : one;
        }
    }
    return all;
}

const struct mr_expr *mr_schema_string(struct mr_schema *schema,
                                       const struct mr_conjunction *conjunction,
                                       const struct mr_schema_facts *facts)
{
    struct mr_expr_builder *builder = schema->builder;
    bool sized = facts->length_min > 0 || facts->length_max != MR_EXPR_UNBOUNDED;
    const struct mr_expr *language = text_language(schema, conjunction);
    if (!language && !sized) return mr_schema_any_string(schema);
    if (!language)
        return in_quotes(schema, mr_expr_counted(builder, character_rule(schema), facts->length_min,
                                                 facts->length_max));
    if (sized)
        language = mr_expr_and(builder, language,
                               mr_expr_repeat(builder, mr_regex_any_char(builder, MR_SPELL_JSON),
                                              facts->length_min, facts->length_max));
    return in_quotes(schema, language);
}

/* ---- constants ---- */

static const struct mr_expr *constant(struct mr_schema *schema, const struct mr_json_value *value);

static const struct mr_expr *constant_number(struct mr_schema *schema,
                                             const struct mr_json_value *value)
{
    char scratch[32];
    return mr_expr_bytes(schema->builder, mr_json_number_text(value, scratch));
}

static const struct mr_expr *constant_container(struct mr_schema *schema,
                                                const struct mr_json_value *value)
{
    struct mr_expr_builder *builder = schema->builder;
    bool is_object = mr_json_kind(value) == MR_JSON_OBJECT;
    struct mr_json_member member = {0};
    size_t count = mr_json_count(value);
    const struct mr_expr *items[2] = {mr_expr_word(builder, is_object ? "{" : "["),
                                      mr_schema_space(schema)};
    const struct mr_expr *all = mr_expr_seq(builder, items, 2);
    for (size_t i = 0; i < count && mr_expr_work(builder, 10); i++) {
        const struct mr_expr *parts[5] = {all, mr_expr_empty(), mr_expr_empty(), NULL, NULL};
        if (is_object) {
            mr_json_next(value, &member);
            parts[1] = mr_schema_quoted(schema, member.name);
            parts[2] =
                mr_expr_either(builder, mr_expr_word(builder, ":"), mr_expr_word(builder, ": "));
        }
        parts[3] = constant(schema, is_object ? member.value : mr_json_at(value, i));
        parts[4] =
            i + 1 < count ? mr_expr_pair(builder, mr_expr_word(builder, ","), items[1]) : items[1];
        all = mr_expr_seq(builder, parts, 5);
    }
    return mr_expr_pair(builder, all, mr_expr_word(builder, is_object ? "}" : "]"));
}

static const struct mr_expr *constant(struct mr_schema *schema, const struct mr_json_value *value)
{
    struct mr_text text;
    bool flag;
    if (mr_json_text(value, &text)) return mr_schema_quoted(schema, text);
    if (mr_json_bool(value, &flag)) return mr_expr_word(schema->builder, flag ? "true" : "false");
    if (mr_json_is_null(value)) return mr_expr_word(schema->builder, "null");
    if (mr_json_kind(value) == MR_JSON_OBJECT || mr_json_kind(value) == MR_JSON_ARRAY)
        return constant_container(schema, value);
    return constant_number(schema, value);
}

static bool number_fits(struct mr_schema *schema, const struct mr_json_value *value,
                        const struct mr_schema_facts *facts)
{
    if (!facts->integer && !facts->min && !facts->max && facts->multiple == 0) return true;
    const struct mr_decimal *number = mr_schema_decimal(schema, value);
    if (!number || (facts->integer && number->fraction_length > 0)) return false;
    int low = facts->min ? mr_decimal_compare(number, facts->min) : 1;
    int high = facts->max ? mr_decimal_compare(number, facts->max) : -1;
    if (low < 0 || (low == 0 && facts->above_min) || high > 0 || (high == 0 && facts->below_max))
        return false;
    return facts->multiple == 0 ||
           mr_decimal_is_multiple(number, facts->multiple, facts->multiple_places);
}

/* True if every node with enum or const has this constant. */
static bool is_constant_of_all(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                               const struct mr_json_value *value)
{
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *list = mr_json_get(conjunction->nodes[i], "enum");
        const struct mr_json_value *only = mr_json_get(conjunction->nodes[i], "const");
        if (only && !mr_schema_equal_values(only, value)) return false;
        bool found = !list;
        for (size_t k = 0; k < mr_json_count(list) && !found; k++)
            found = mr_json_at(list, k) == value ||
                    (mr_expr_work(schema->builder, 2) &&
                     mr_schema_equal_values(mr_json_at(list, k), value));
        if (!found) return false;
    }
    return true;
}

/* True if a keyword other than type restricts the content of arrays or objects. */
static bool restricts_containers(const struct mr_conjunction *conjunction)
{
    static const char *const keywords[] = {"properties",    "required",      "additionalProperties",
                                           "minProperties", "maxProperties", "items",
                                           "prefixItems",   "minItems",      "maxItems"};
    for (uint32_t i = 0; i < conjunction->count; i++)
        for (size_t k = 0; k < sizeof keywords / sizeof keywords[0]; k++)
            if (mr_json_get(conjunction->nodes[i], keywords[k])) return true;
    return false;
}

static const struct mr_expr *constant_text(struct mr_schema *schema,
                                           const struct mr_conjunction *conjunction,
                                           const struct mr_schema_facts *facts, struct mr_text text)
{
    struct mr_expr_builder *builder = schema->builder;
    uint32_t length = 0;
    for (size_t i = 0; i < text.length; i++)
        length += (text.bytes[i] & 0xc0) != 0x80;
    if (length < facts->length_min || length > facts->length_max) return mr_expr_never();
    const struct mr_expr *literal = mr_expr_text(builder, text, MR_SPELL_JSON);
    const struct mr_expr *language = text_language(schema, conjunction);
    return in_quotes(schema, language ? mr_expr_and(builder, literal, language) : literal);
}

static const struct mr_expr *checked_constant(struct mr_schema *schema,
                                              const struct mr_conjunction *conjunction,
                                              const struct mr_schema_facts *facts,
                                              const struct mr_json_value *value)
{
    struct mr_text text;
    unsigned type = mr_schema_type_of(value);
    if (!is_constant_of_all(schema, conjunction, value)) return mr_expr_never();
    if ((facts->types & type) == 0) return mr_expr_never();
    if (type == MR_TYPE_NUMBER && !number_fits(schema, value, facts)) return mr_expr_never();
    if (mr_json_text(value, &text)) return constant_text(schema, conjunction, facts, text);
    return constant(schema, value);
}

const struct mr_expr *mr_schema_enum(struct mr_schema *schema,
                                     const struct mr_conjunction *conjunction,
                                     const struct mr_schema_facts *facts)
{
    const struct mr_json_value *owner = NULL, *list = NULL, *only = NULL;
    for (uint32_t i = 0; i < conjunction->count && !owner; i++) {
        list = mr_json_get(conjunction->nodes[i], "enum");
        only = mr_json_get(conjunction->nodes[i], "const");
        if (list || only) owner = conjunction->nodes[i];
    }
    if (!owner) return NULL;
    if (list && (mr_json_kind(list) != MR_JSON_ARRAY || mr_json_count(list) == 0)) {
        mr_schema_fail(schema, MR_INVALID_REQUEST, owner, "enum", "must be an array of values");
        return mr_expr_never();
    }
    size_t count = only ? 1 : mr_json_count(list);
    bool restricted = restricts_containers(conjunction);
    const struct mr_expr **items = mr_expr_take(schema->builder, count, sizeof *items);
    for (size_t i = 0; items && i < count && schema->builder->status == MR_OK; i++) {
        const struct mr_json_value *value = only ? only : mr_json_at(list, i);
        if (restricted && (mr_schema_type_of(value) & (MR_TYPE_ARRAY | MR_TYPE_OBJECT)))
            mr_schema_fail(schema, MR_UNSUPPORTED, owner, only ? "const" : "enum",
                           "objects and arrays with other conditions are not supported");
        items[i] = checked_constant(schema, conjunction, facts, value);
    }
    if (schema->builder->status != MR_OK) return mr_expr_never();
    return mr_expr_alt(schema->builder, items, (uint32_t)count);
}
