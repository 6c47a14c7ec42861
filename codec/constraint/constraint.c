#include "codec/constraint/constraint.h"

#include "codec/check.h"
#include "codec/constraint/call_frame.h"
#include "codec/constraint/grammar_front.h"
#include "codec/constraint/regex_front.h"
#include "codec/constraint/schema.h"
#include "codec/grammar/compile.h"
#include "codec/sha256.h"
#include "codec/wire/json.h"

#include <stdio.h>
#include <string.h>

#define CHOICES_MAX 65536u

static void define_choice(struct mr_expr_builder *builder, struct mr_text text)
{
    static const struct mr_json_limits limits = {MR_CONSTRAINT_BYTES_MAX, CHOICES_MAX + 1, 2};
    struct mr_json *document;
    struct mr_error why;
    if (mr_json_parse(&document, text, &limits, &why) != MR_OK) {
        mr_expr_fail(builder, MR_INVALID_REQUEST, "choice: %.120s", why.detail);
        return;
    }
    const struct mr_json_value *root = mr_json_root(document);
    size_t count = mr_json_kind(root) == MR_JSON_ARRAY ? mr_json_count(root) : 0;
    const struct mr_expr **items = mr_expr_take(builder, count, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        struct mr_text choice;
        if (!mr_json_text(mr_json_at(root, i), &choice) || choice.length == 0) {
            mr_expr_fail(builder, MR_INVALID_REQUEST, "choice/%zu is not a text, or empty", i);
            break;
        }
        items[i] = mr_expr_text(builder, choice, MR_SPELL_TEXT);
    }
    if (count == 0) mr_expr_fail(builder, MR_INVALID_REQUEST, "choice has no texts");
    if (builder->status == MR_OK)
        mr_expr_rule_define(builder, 0, mr_expr_alt(builder, items, (uint32_t)count));
    mr_json_destroy(document);
}

/* *document: set as by mr_schema_define. */
static void define_rules(struct mr_expr_builder *builder, const struct mr_constraint *constraint,
                         struct mr_json **document)
{
    static const struct mr_regex_options whole = {MR_REGEX_WHOLE, MR_SPELL_TEXT, "regex"};
    mr_expr_rule_add(builder, constraint->kind == MR_CONSTRAINT_REGEX    ? "regex"
                              : constraint->kind == MR_CONSTRAINT_CHOICE ? "choice"
                                                                         : "root");
    switch (constraint->kind) {
    case MR_CONSTRAINT_NONE:
        MR_ASSERT(false);
        break;
    case MR_CONSTRAINT_JSON_OBJECT:
        mr_schema_define_object(builder);
        break;
    case MR_CONSTRAINT_JSON_SCHEMA:
        mr_schema_define(builder, 0, constraint->text, document);
        break;
    case MR_CONSTRAINT_REGEX:
        mr_expr_rule_define(builder, 0, mr_regex_expr(builder, constraint->text, &whole));
        break;
    case MR_CONSTRAINT_CHOICE:
        define_choice(builder, constraint->text);
        break;
    case MR_CONSTRAINT_TAGGED_CALLS:
    case MR_CONSTRAINT_TAGGED_CALL:
        mr_call_frame_define(builder, constraint->text, MR_FRAME_TAGS,
                             constraint->kind == MR_CONSTRAINT_TAGGED_CALL, document);
        break;
    case MR_CONSTRAINT_WHOLE_CALLS:
    case MR_CONSTRAINT_WHOLE_CALL:
        mr_call_frame_define(builder, constraint->text, MR_FRAME_WHOLE,
                             constraint->kind == MR_CONSTRAINT_WHOLE_CALL, document);
        break;
    case MR_CONSTRAINT_EBNF:
        mr_grammar_front_define(builder, constraint->text);
        break;
    }
}

/* Adds a root rule: reasoning, its end tag, and then rule 0. */
static void put_after_reasoning(struct mr_expr_builder *builder)
{
    const struct mr_expr *end = mr_expr_word(builder, MR_REASONING_END);
    const struct mr_expr *const items[] = {
        mr_regex_text_without(builder, end), end,
        mr_expr_repeat(builder, mr_expr_word(builder, "\n"), 0, 2), mr_expr_ref(builder, 0)};
    const uint32_t rule = mr_expr_rule_add(builder, "reasoning");
    if (builder->status != MR_OK) return;
    mr_expr_rule_define(builder, rule, mr_expr_seq(builder, items, 4));
    builder->root = rule;
}

/* Adds to the error the part of the source that reached a limit. */
static void add_place(struct mr_expr_builder *builder, const struct mr_json *document)
{
    char sentence[MR_ERROR_DETAIL_BYTES];
    if (document) {
        mr_schema_add_place(builder, document, builder->rule);
    } else if (builder->err) {
        snprintf(sentence, sizeof sentence, "%s", builder->err->detail);
        mr_fail(builder->err, builder->status, "%.60s: %.150s", builder->rules[builder->rule].name,
                sentence);
    }
}

enum mr_status mr_constraint_digest(const struct mr_constraint *constraint,
                                    unsigned char digest[MR_GRAMMAR_DIGEST_BYTES],
                                    struct mr_error *err)
{
    const char kind = (char)((constraint->after_reasoning ? 'a' : 'A') + constraint->kind);
    struct mr_sha256 *state = mr_sha256_create();
    if (!state) return mr_fail(err, MR_NOMEM, "no memory for a grammar");
    mr_sha256_begin(state);
    mr_sha256_add(state, &kind, 1);
    mr_sha256_add(state, constraint->text.bytes, constraint->text.length);
    mr_sha256_end(state, digest);
    mr_sha256_destroy(state);
    return MR_OK;
}

enum mr_status mr_constraint_compile(struct mr_grammar **out,
                                     const struct mr_constraint *constraint, const bool *spelled,
                                     struct mr_error *err)
{
    struct mr_expr_builder builder;
    unsigned char digest[MR_GRAMMAR_DIGEST_BYTES];
    *out = NULL;
    if (constraint->text.length > MR_CONSTRAINT_BYTES_MAX)
        return mr_fail(err, MR_INVALID_REQUEST, "the schema or grammar is %zu bytes, at most %zu",
                       constraint->text.length, MR_CONSTRAINT_BYTES_MAX);
    enum mr_status status = mr_constraint_digest(constraint, digest, err);
    if (status == MR_OK) status = mr_expr_builder_init(&builder, err);
    if (status != MR_OK) return status;
    builder.spelled = spelled;
    struct mr_json *document = NULL;
    define_rules(&builder, constraint, &document);
    if (builder.status == MR_OK && constraint->after_reasoning) put_after_reasoning(&builder);
    status = mr_automaton_compile(out, &builder);
    if (status != MR_OK && builder.over_limit && builder.rule_count > 0)
        add_place(&builder, document);
    mr_json_destroy(document);
    if (status == MR_OK) {
        memcpy((*out)->digest, digest, sizeof digest);
        memcpy((*out)->warning, builder.warning, sizeof builder.warning);
    }
    mr_expr_builder_drop(&builder);
    return status;
}
