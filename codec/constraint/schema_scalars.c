/* Texts, constants and white space. */
#include "codec/constraint/regex_front.h"
#include "codec/constraint/schema_state.h"

#include <string.h>

#define PRODUCT_STATES_MAX 150000u /* of a pattern or format and a length */

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

const struct mr_expr *mr_schema_in_quotes(struct mr_schema *schema, const struct mr_expr *inside)
{
    const struct mr_expr *quote = mr_expr_word(schema->builder, "\"");
    const struct mr_expr *items[3] = {quote, inside, quote};
    return mr_expr_seq(schema->builder, items, 3);
}

const struct mr_expr *mr_schema_any_text(struct mr_schema *schema)
{
    return mr_expr_repeat(schema->builder, mr_regex_any_char(schema->builder, MR_SPELL_JSON), 0,
                          MR_EXPR_UNBOUNDED);
}

const struct mr_expr *mr_schema_quoted(struct mr_schema *schema, struct mr_text text)
{
    return mr_schema_in_quotes(schema, mr_expr_text(schema->builder, text, MR_SPELL_JSON));
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
        mr_expr_rule_define(
            builder, schema->string,
            mr_schema_in_quotes(
                schema, mr_expr_repeat(builder, any_character(schema), 0, MR_EXPR_UNBOUNDED)));
    }
    return mr_expr_ref(builder, schema->string);
}

/* The language of a pattern or format; NULL for a format that is not enforced. */
static const struct mr_expr *keyword_language(struct mr_schema *schema,
                                              const struct mr_json_value *node, const char *keyword,
                                              enum mr_regex_extent extent)
{
    const struct mr_json_value *value = keyword ? mr_json_get(node, keyword) : node;
    const bool is_format = keyword && strcmp(keyword, "format") == 0;
    struct mr_text text;
    const struct mr_expr *language = NULL;
    if (!value) return NULL;
    if (!mr_json_text(value, &text))
        mr_schema_fail(schema, MR_INVALID_REQUEST, node, keyword, "must be a text");
    else if (is_format && !(language = mr_schema_format(schema, text)))
        mr_schema_warn(schema, node, keyword, "this format is not known and not enforced");
    else if (!is_format)
        language = mr_schema_pattern(schema, node, keyword, text, extent);
    return language;
}

/* The texts that a value may be, in JSON spelling without quotes: what pattern, format and
 * conditions leave; NULL if they allow any text. */
static const struct mr_expr *text_language(struct mr_schema *schema,
                                           const struct mr_conjunction *conjunction)
{
    struct mr_expr_builder *builder = schema->builder;
    const struct mr_expr *all = NULL;
    for (uint32_t i = 0; i < conjunction->count && builder->status == MR_OK; i++)
        for (unsigned k = 0; k < 2; k++) {
            const struct mr_expr *one = keyword_language(
                schema, conjunction->nodes[i], k == 0 ? "pattern" : "format", MR_REGEX_SEARCH);
            if (one) all = all ? mr_expr_and(builder, all, one) : one;
        }
    for (uint32_t i = 0; i < conjunction->condition_count && builder->status == MR_OK; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if (!at->keyword) continue;
        const bool one = strcmp(at->keyword, "const") == 0;
        if (strcmp(at->keyword, "pattern") == 0)
            all = mr_expr_minus(builder, all ? all : mr_schema_any_text(schema),
                                keyword_language(schema, at->value, NULL, MR_REGEX_SEARCH_WIDE));
        for (size_t k = 0;
             (one && k == 0) || (strcmp(at->keyword, "enum") == 0 && k < mr_json_count(at->value));
             k++) {
            struct mr_text text;
            if (mr_json_text(one ? at->value : mr_json_at(at->value, k), &text))
                all = mr_expr_minus(builder, all ? all : mr_schema_any_text(schema),
                                    mr_expr_text(builder, text, MR_SPELL_JSON));
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
    if (schema->texts_only && !language) language = mr_schema_any_text(schema);
    if (!language && !sized) return mr_schema_any_string(schema);
    if (!language)
        return mr_schema_in_quotes(schema, mr_expr_counted(builder, character_rule(schema),
                                                           facts->length_min, facts->length_max));
    /* the product of the two automata must stay small: a larger maximum is lowered */
    uint32_t most = PRODUCT_STATES_MAX / language->size, max = facts->length_max;
    if (most < facts->length_min) most = facts->length_min;
    if (max != MR_EXPR_UNBOUNDED && max > most) max = most;
    if (sized)
        language = mr_expr_and(builder, language,
                               mr_expr_repeat(builder, mr_regex_any_char(builder, MR_SPELL_JSON),
                                              facts->length_min, max));
    return mr_schema_in_quotes(schema, language);
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

static bool equals_constant(struct mr_schema *schema, const struct mr_json_value *list,
                            const struct mr_json_value *value)
{
    bool found = false;
    for (size_t k = 0; k < mr_json_count(list) && !found; k++)
        found =
            mr_expr_work(schema->builder, 2) && mr_schema_equal_values(mr_json_at(list, k), value);
    return found;
}

/* True if this constant of `owner` is one of every other node with enum or const, and of no
 * condition. */
static bool is_constant_of_all(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                               const struct mr_json_value *owner, const struct mr_json_value *value)
{
    for (uint32_t i = 0; i < conjunction->count; i++) {
        const struct mr_json_value *list = mr_json_get(conjunction->nodes[i], "enum");
        const struct mr_json_value *only = mr_json_get(conjunction->nodes[i], "const");
        if (only && !mr_schema_equal_values(only, value)) return false;
        if (list && conjunction->nodes[i] != owner && !equals_constant(schema, list, value))
            return false;
    }
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const struct mr_condition *at = &conjunction->conditions[i];
        if (at->keyword && strcmp(at->keyword, "const") == 0 &&
            mr_schema_equal_values(at->value, value))
            return false;
        if (at->keyword && strcmp(at->keyword, "enum") == 0 &&
            equals_constant(schema, at->value, value))
            return false;
    }
    return true;
}

/* True if a keyword other than type restricts the content of arrays or objects. */
static bool restricts_containers(const struct mr_conjunction *conjunction)
{
    const unsigned containers = MR_TYPE_ARRAY | MR_TYPE_OBJECT;
    for (uint32_t i = 0; i < conjunction->count; i++) {
        struct mr_json_member member = {0};
        while (mr_json_next(conjunction->nodes[i], &member))
            if (mr_schema_keyword_type(member.name.bytes) & containers) return true;
    }
    for (uint32_t i = 0; i < conjunction->condition_count; i++) {
        const char *keyword = conjunction->conditions[i].keyword;
        if (keyword && mr_schema_keyword_type(keyword) & containers) return true;
    }
    return false;
}

/* language: the texts that the other keywords allow; NULL: any. */
static const struct mr_expr *constant_text(struct mr_schema *schema, const struct mr_expr *language,
                                           const struct mr_schema_facts *facts, struct mr_text text)
{
    struct mr_expr_builder *builder = schema->builder;
    uint32_t length = 0;
    for (size_t i = 0; i < text.length; i++)
        length += (text.bytes[i] & 0xc0) != 0x80;
    if (length < facts->length_min || length > facts->length_max) return mr_expr_never();
    const struct mr_expr *literal = mr_expr_text(builder, text, MR_SPELL_JSON);
    return mr_schema_in_quotes(schema,
                               language ? mr_expr_and(builder, literal, language) : literal);
}

static const struct mr_expr *
checked_constant(struct mr_schema *schema, const struct mr_conjunction *conjunction,
                 const struct mr_schema_facts *facts, const struct mr_json_value *owner,
                 const struct mr_json_value *value, const struct mr_expr *language)
{
    struct mr_text text;
    unsigned type = mr_schema_type_of(value);
    if ((facts->types & type) == 0) return mr_expr_never();
    if (!is_constant_of_all(schema, conjunction, owner, value)) return mr_expr_never();
    if (type == MR_TYPE_NUMBER && !number_fits(schema, value, facts)) return mr_expr_never();
    if (mr_json_text(value, &text)) return constant_text(schema, language, facts, text);
    return constant(schema, value);
}

const struct mr_expr **mr_schema_enum(struct mr_schema *schema,
                                      const struct mr_conjunction *conjunction,
                                      const struct mr_schema_facts *facts, uint32_t *count)
{
    const struct mr_json_value *owner = NULL, *list = NULL;
    bool only = false;
    for (uint32_t i = 0; i < conjunction->count && !only; i++) {
        const struct mr_json_value *node = conjunction->nodes[i];
        only = mr_json_get(node, "const") != NULL;
        if (only || (!owner && mr_json_get(node, "enum"))) owner = node;
    }
    if (!owner) return NULL;
    list = mr_json_get(owner, "enum");
    *count = 0;
    if (!only && (mr_json_kind(list) != MR_JSON_ARRAY || mr_json_count(list) == 0))
        mr_schema_fail(schema, MR_INVALID_REQUEST, owner, "enum", "must be an array of values");
    const size_t constants = mr_schema_constants(owner);
    const bool restricted = restricts_containers(conjunction);
    const struct mr_expr *language =
        facts->types & MR_TYPE_STRING ? text_language(schema, conjunction) : NULL;
    const struct mr_expr **items = mr_expr_take(schema->builder, constants + 1, sizeof *items);
    for (size_t i = 0; items && i < constants && schema->builder->status == MR_OK; i++) {
        const struct mr_json_value *value = mr_schema_constant(owner, i);
        if (restricted && (mr_schema_type_of(value) & (MR_TYPE_ARRAY | MR_TYPE_OBJECT)))
            mr_schema_fail(schema, MR_UNSUPPORTED, owner, only ? "const" : "enum",
                           "objects and arrays with other conditions are not supported");
        items[(*count)++] = checked_constant(schema, conjunction, facts, owner, value, language);
    }
    if (!items || schema->builder->status != MR_OK) *count = 0;
    return items;
}
