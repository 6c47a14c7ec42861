/* Shared by the tests of codec/grammar: grammars built by hand. */
#ifndef TESTS_UNIT_CODEC_GRAMMAR_BUILDERS_H
#define TESTS_UNIT_CODEC_GRAMMAR_BUILDERS_H

#include "codec/grammar/compile.h"
#include "codec/grammar/matcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static inline void begin(struct mr_expr_builder *builder, struct mr_error *err)
{
    assert_int_equal(mr_expr_builder_init(builder, err), MR_OK);
    assert_int_equal(mr_expr_rule_add(builder, "root"), 0);
}

/* Compiles and drops the builder. */
static inline struct mr_grammar *finish(struct mr_expr_builder *builder)
{
    struct mr_grammar *grammar;
    assert_int_equal(mr_automaton_compile(&grammar, builder), MR_OK);
    mr_expr_builder_drop(builder);
    return grammar;
}

/* root = "(" root ")" root | "" : balanced parentheses. */
static inline struct mr_grammar *parentheses(void)
{
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    const struct mr_expr *items[4] = {mr_expr_word(&builder, "("), mr_expr_ref(&builder, 0),
                                      mr_expr_word(&builder, ")"), mr_expr_ref(&builder, 0)};
    mr_expr_rule_define(&builder, 0,
                        mr_expr_either(&builder, mr_expr_empty(), mr_expr_seq(&builder, items, 4)));
    return finish(&builder);
}

static inline struct mr_grammar *grammar_of(struct mr_expr_builder *builder,
                                            const struct mr_expr *expr)
{
    mr_expr_rule_define(builder, 0, expr);
    return finish(builder);
}

static inline bool matches(const struct mr_grammar *grammar, const char *text)
{
    struct mr_parse *parse;
    assert_int_equal(mr_parse_create(&parse, NULL), MR_OK);
    struct mr_matcher *matcher = malloc(sizeof *matcher);
    mr_matcher_init(matcher, grammar, parse);
    bool whole = mr_matcher_accept(matcher, parse, text_of(text)) && matcher->can_end;
    free(matcher);
    mr_parse_destroy(parse);
    return whole;
}

#endif
