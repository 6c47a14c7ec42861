#include "builders.h"

static void a_stack_is_never_deeper_than_its_limit(void **state)
{
    (void)state;
    struct mr_grammar *grammar = parentheses();
    struct mr_parse *parse;
    assert_int_equal(mr_parse_create(&parse, NULL), MR_OK);
    struct mr_matcher *matcher = malloc(sizeof *matcher);
    mr_matcher_init(matcher, grammar, parse);
    uint32_t depth = 0;
    while (mr_matcher_accept(matcher, parse, text_of("(")))
        assert_true(++depth <= MR_STACK_MAX);
    assert_true(depth > MR_STACK_MAX - 3);
    for (uint32_t i = 0; i < depth; i++)
        assert_true(mr_matcher_accept(matcher, parse, text_of(")")));
    assert_true(matcher->can_end);
    free(matcher);
    mr_parse_destroy(parse);
    mr_grammar_drop(grammar);
}

/* S = "a" S S | "": without merging, its heads would double with every byte. */
static void ambiguity_is_bounded(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    const struct mr_expr *items[3] = {mr_expr_word(&builder, "a"), mr_expr_ref(&builder, 0),
                                      mr_expr_ref(&builder, 0)};
    struct mr_grammar *grammar = grammar_of(
        &builder, mr_expr_either(&builder, mr_expr_seq(&builder, items, 3), mr_expr_empty()));
    char text[201] = "";
    memset(text, 'a', 200);
    assert_true(matches(grammar, text));
    text[100] = 'b';
    assert_false(matches(grammar, text));
    mr_grammar_drop(grammar);
}

static void right_recursion_needs_no_stack(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    struct mr_grammar *grammar =
        grammar_of(&builder, mr_expr_either(&builder, mr_expr_word(&builder, "."),
                                            mr_expr_pair(&builder, mr_expr_word(&builder, "a"),
                                                         mr_expr_ref(&builder, 0))));
    char text[2001];
    memset(text, 'a', 1999);
    memcpy(text + 1999, ".", 2);
    assert_true(matches(grammar, text));
    mr_grammar_drop(grammar);
}

static void counting_is_exact(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    uint32_t item = mr_expr_rule_add(&builder, "item");
    mr_expr_rule_define(&builder, item, mr_expr_word(&builder, "x"));
    const struct mr_expr *items[2] = {mr_expr_counted(&builder, item, 3, 7),
                                      mr_expr_word(&builder, "!")};
    struct mr_grammar *grammar = grammar_of(&builder, mr_expr_seq(&builder, items, 2));
    for (unsigned count = 0; count < 10; count++) {
        char text[12] = "";
        memset(text, 'x', count);
        text[count] = '!';
        assert_int_equal(matches(grammar, text), count >= 3 && count <= 7);
    }
    mr_grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_is_never_deeper_than_its_limit),
        cmocka_unit_test(ambiguity_is_bounded),
        cmocka_unit_test(right_recursion_needs_no_stack),
        cmocka_unit_test(counting_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
