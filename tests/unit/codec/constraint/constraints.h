/* Shared by the tests of codec/constraint: compile, match whole texts, expect refusals. */
#ifndef TESTS_UNIT_CODEC_CONSTRAINT_CONSTRAINTS_H
#define TESTS_UNIT_CODEC_CONSTRAINT_CONSTRAINTS_H

#include "codec/constraint/constraint.h"
#include "codec/grammar/matcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static inline struct mr_grammar *compile(enum mr_constraint_kind kind, const char *text)
{
    struct mr_grammar *grammar;
    struct mr_error err = {.detail = ""};
    const struct mr_constraint constraint = {kind, text_of(text), false};
    if (mr_constraint_compile(&grammar, &constraint, NULL, &err) != MR_OK)
        fail_msg("%s: %s", text, err.detail);
    return grammar;
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

/* Asserts which texts of two NULL-terminated lists a constraint allows. */
static inline void assert_language(enum mr_constraint_kind kind, const char *source,
                                   const char *const *yes, const char *const *no)
{
    struct mr_grammar *grammar = compile(kind, source);
    for (; *yes; yes++)
        if (!matches(grammar, *yes)) fail_msg("%s does not match %s", source, *yes);
    for (; *no; no++)
        if (matches(grammar, *no)) fail_msg("%s matches %s", source, *no);
    mr_grammar_drop(grammar);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE      ((const char *const[]){NULL})

static inline void assert_refused(enum mr_constraint_kind kind, const char *source,
                                  enum mr_status status, const char *why)
{
    struct mr_grammar *grammar;
    struct mr_error err = {.detail = ""};
    const struct mr_constraint constraint = {kind, text_of(source), false};
    enum mr_status got = mr_constraint_compile(&grammar, &constraint, NULL, &err);
    if (got != status || !strstr(err.detail, why))
        fail_msg("%s: %s: %s", source, mr_status_name(got), err.detail);
    assert_null(grammar);
}

#endif
