#include "builders.h"

static void assert_fails(struct mr_expr_builder *builder, struct mr_error *err,
                         enum mr_status status, const char *why)
{
    struct mr_grammar *grammar;
    assert_int_equal(mr_automaton_compile(&grammar, builder), status);
    assert_null(grammar);
    if (!strstr(err->detail, why)) fail_msg("%s", err->detail);
    mr_expr_builder_drop(builder);
}

static void left_recursion_is_refused(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_error err;
    begin(&builder, &err);
    uint32_t other = mr_expr_rule_add(&builder, "other");
    const struct mr_expr *maybe = mr_expr_repeat(&builder, mr_expr_word(&builder, "-"), 0, 1);
    mr_expr_rule_define(
        &builder, 0,
        mr_expr_either(&builder, mr_expr_word(&builder, "x"),
                       mr_expr_pair(&builder, maybe, mr_expr_ref(&builder, other))));
    mr_expr_rule_define(
        &builder, other,
        mr_expr_pair(&builder, mr_expr_ref(&builder, 0), mr_expr_word(&builder, "+")));
    assert_fails(&builder, &err, MR_UNSUPPORTED, "begins with itself");
}

static void a_grammar_without_an_end_is_refused(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_error err;
    begin(&builder, &err);
    mr_expr_rule_define(
        &builder, 0, mr_expr_pair(&builder, mr_expr_word(&builder, "a"), mr_expr_ref(&builder, 0)));
    assert_fails(&builder, &err, MR_INVALID_REQUEST, "no text");
}

static void an_undefined_rule_is_named(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_error err;
    begin(&builder, &err);
    mr_expr_rule_define(&builder, 0, mr_expr_ref(&builder, mr_expr_rule_add(&builder, "missing")));
    assert_fails(&builder, &err, MR_INVALID_REQUEST, "missing");
}

static void a_grammar_that_must_nest_too_deep_is_refused(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_error err;
    begin(&builder, &err);
    for (uint32_t i = 0; i < 200; i++) {
        const struct mr_expr *items[3] = {mr_expr_word(&builder, "("),
                                          mr_expr_ref(&builder, mr_expr_rule_add(&builder, "r")),
                                          mr_expr_word(&builder, ")")};
        mr_expr_rule_define(&builder, i, mr_expr_seq(&builder, items, 3));
    }
    mr_expr_rule_define(&builder, 200, mr_expr_word(&builder, "x"));
    assert_fails(&builder, &err, MR_INVALID_REQUEST, "deeper");
}

/* An alternative without an end is never entered. */
static void dead_ends_are_left_out(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    uint32_t endless = mr_expr_rule_add(&builder, "endless");
    mr_expr_rule_define(
        &builder, endless,
        mr_expr_pair(&builder, mr_expr_word(&builder, "a"), mr_expr_ref(&builder, endless)));
    struct mr_grammar *grammar =
        grammar_of(&builder, mr_expr_either(&builder, mr_expr_word(&builder, "ab"),
                                            mr_expr_ref(&builder, endless)));
    struct mr_parse *parse;
    assert_int_equal(mr_parse_create(&parse, NULL), MR_OK);
    struct mr_matcher *matcher = malloc(sizeof *matcher);
    mr_matcher_init(matcher, grammar, parse);
    assert_true(mr_matcher_accept(matcher, parse, text_of("a")));
    assert_false(mr_matcher_accept(matcher, parse, text_of("a")));
    assert_true(mr_matcher_accept(matcher, parse, text_of("b")));
    free(matcher);
    mr_parse_destroy(parse);
    mr_grammar_drop(grammar);
}

/* Bytes that occur in no token are left out, with everything reachable only through them. */
static void bytes_that_no_token_spells_are_left_out(void **state)
{
    (void)state;
    bool spelled[256];
    struct mr_expr_builder builder;
    struct mr_error err;
    memset(spelled, true, sizeof spelled);
    spelled['b'] = false;
    begin(&builder, NULL);
    builder.spelled = spelled;
    const struct mr_expr *items[3] = {mr_expr_word(&builder, "axb"), mr_expr_word(&builder, "ay"),
                                      mr_expr_range(&builder, 'a', 'c')};
    struct mr_grammar *grammar = grammar_of(&builder, mr_expr_alt(&builder, items, 3));
    assert_true(matches(grammar, "ay") && matches(grammar, "a") && matches(grammar, "c"));
    assert_false(matches(grammar, "b") || matches(grammar, "axb"));
    mr_grammar_drop(grammar);
    begin(&builder, &err);
    builder.spelled = spelled;
    mr_expr_rule_define(&builder, 0, mr_expr_word(&builder, "ab"));
    assert_fails(&builder, &err, MR_INVALID_REQUEST, "no text");
}

static void plain_states_are_marked(void **state)
{
    (void)state;
    static const struct mr_char_range all = {0, MR_CODE_POINT_MAX}, ascii = {0x20, 0x7e};
    struct mr_expr_builder builder;
    for (unsigned plain = 0; plain < 2; plain++) {
        begin(&builder, NULL);
        const struct mr_expr *items[3] = {
            mr_expr_word(&builder, "\""),
            mr_expr_repeat(&builder,
                           mr_expr_class(&builder, plain ? &all : &ascii, 1, MR_SPELL_JSON), 0,
                           MR_EXPR_UNBOUNDED),
            mr_expr_word(&builder, "\"")};
        struct mr_grammar *grammar = grammar_of(&builder, mr_expr_seq(&builder, items, 3));
        uint32_t inside = mr_automaton_next(grammar, grammar->rules[0].start, '"');
        assert_int_equal(grammar->states[inside].plain_loop, plain);
        assert_true(grammar->states[grammar->rules[0].start].blocks_plain);
        assert_false(grammar->states[inside].blocks_plain);
        mr_grammar_drop(grammar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left_recursion_is_refused),
        cmocka_unit_test(a_grammar_without_an_end_is_refused),
        cmocka_unit_test(an_undefined_rule_is_named),
        cmocka_unit_test(a_grammar_that_must_nest_too_deep_is_refused),
        cmocka_unit_test(dead_ends_are_left_out),
        cmocka_unit_test(bytes_that_no_token_spells_are_left_out),
        cmocka_unit_test(plain_states_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
