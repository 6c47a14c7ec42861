#include "builders.h"

struct fixture {
    struct mr_grammar *grammar;
    struct mr_parse *parse;
    struct mr_matcher one, other;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->grammar = parentheses();
    assert_int_equal(mr_parse_create(&fixture->parse, NULL), MR_OK);
    mr_matcher_init(&fixture->one, fixture->grammar, fixture->parse);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    mr_parse_destroy(fixture->parse);
    mr_grammar_drop(fixture->grammar);
    free(fixture);
    return 0;
}

static void a_refused_text_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    assert_true(mr_matcher_accept(&fixture->one, fixture->parse, text_of("((")));
    assert_false(mr_matcher_accept(&fixture->one, fixture->parse, text_of(")))")));
    assert_false(fixture->one.can_end);
    assert_true(mr_matcher_accept(&fixture->one, fixture->parse, text_of("))")));
    assert_true(fixture->one.can_end);
}

static void copies_go_on_independently(void **state)
{
    struct fixture *fixture = *state;
    assert_true(mr_matcher_accept(&fixture->one, fixture->parse, text_of("(")));
    mr_matcher_copy(&fixture->other, &fixture->one);
    assert_true(mr_matcher_accept(&fixture->one, fixture->parse, text_of(")")));
    assert_true(mr_matcher_accept(&fixture->other, fixture->parse, text_of("()")));
    assert_true(fixture->one.can_end && !fixture->other.can_end);
}

static void an_answer_is_over_when_nothing_may_follow(void **state)
{
    struct fixture *fixture = *state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    struct mr_grammar *grammar = grammar_of(&builder, mr_expr_word(&builder, "ab"));
    mr_matcher_init(&fixture->other, grammar, fixture->parse);
    assert_true(fixture->other.at_start && !mr_matcher_is_over(&fixture->other));
    assert_true(mr_matcher_accept(&fixture->other, fixture->parse, text_of("ab")));
    assert_true(mr_matcher_is_over(&fixture->other) && !fixture->other.at_start);
    assert_false(mr_matcher_accept(&fixture->other, fixture->parse, text_of("c")));
    assert_false(mr_matcher_is_over(&fixture->one)); /* more parentheses may follow */
    mr_grammar_drop(grammar);
}

static void forced_bytes_are_those_without_choice(void **state)
{
    struct fixture *fixture = *state;
    struct mr_expr_builder builder;
    char forced[32];
    begin(&builder, NULL);
    const struct mr_expr *ends[2] = {mr_expr_word(&builder, "one"),
                                     mr_expr_word(&builder, "other")};
    struct mr_grammar *grammar =
        grammar_of(&builder, mr_expr_pair(&builder, mr_expr_word(&builder, "key:"),
                                          mr_expr_alt(&builder, ends, 2)));
    mr_matcher_init(&fixture->other, grammar, fixture->parse);
    assert_int_equal(mr_matcher_forced(&fixture->other, fixture->parse, forced, sizeof forced), 5);
    assert_memory_equal(forced, "key:o", 5);
    assert_int_equal(mr_matcher_forced(&fixture->other, fixture->parse, forced, 2), 2);
    assert_true(mr_matcher_accept(&fixture->other, fixture->parse, text_of("key:on")));
    assert_int_equal(mr_matcher_forced(&fixture->other, fixture->parse, forced, sizeof forced), 1);
    assert_int_equal(mr_matcher_forced(&fixture->one, fixture->parse, forced, sizeof forced), 0);
    mr_grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_refused_text_changes_nothing, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(copies_go_on_independently, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(an_answer_is_over_when_nothing_may_follow, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(forced_bytes_are_those_without_choice, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
