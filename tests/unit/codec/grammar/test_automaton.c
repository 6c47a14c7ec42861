#include "builders.h"

static void a_state_finds_the_edge_of_every_byte(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    const struct mr_expr *items[64];
    begin(&builder, NULL);
    for (unsigned i = 0; i < 64; i++)
        items[i] = mr_expr_pair(&builder, mr_expr_range(&builder, 4 * i, 4 * i + 1),
                                mr_expr_range(&builder, i, i));
    struct mr_grammar *grammar = grammar_of(&builder, mr_expr_alt(&builder, items, 64));
    uint32_t start = grammar->rules[0].start;
    assert_int_equal(grammar->states[start].edge_count, 64);
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t next = mr_automaton_next(grammar, start, (unsigned char)byte);
        assert_int_equal(next == MR_STATE_NONE, byte % 4 > 1);
        if (next == MR_STATE_NONE) continue;
        for (unsigned second = 0; second < 256; second++)
            assert_int_equal(mr_automaton_next(grammar, next, (unsigned char)second) !=
                                 MR_STATE_NONE,
                             second == byte / 4);
    }
    mr_grammar_drop(grammar);
}

static void the_last_reference_frees(void **state)
{
    (void)state;
    struct mr_grammar *grammar = parentheses();
    assert_ptr_equal(mr_grammar_hold(grammar), grammar);
    mr_grammar_drop(grammar);
    assert_true(matches(grammar, "()"));
    assert_true(mr_grammar_bytes(grammar) > sizeof(struct mr_grammar));
    mr_grammar_drop(grammar);
    mr_grammar_drop(NULL);
}

static void counted_states_lead_to_their_rule(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    begin(&builder, NULL);
    uint32_t item = mr_expr_rule_add(&builder, "item");
    mr_expr_rule_define(&builder, item, mr_expr_word(&builder, "x"));
    const struct mr_expr *one = mr_expr_counted(&builder, item, 2, 5000);
    const struct mr_expr *two = mr_expr_counted(&builder, item, 3, MR_EXPR_UNBOUNDED);
    struct mr_grammar *grammar = grammar_of(&builder, mr_expr_either(&builder, one, two));
    assert_int_equal(grammar->counted_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct mr_automaton_rule *rule = &grammar->rules[grammar->counted[i]];
        uint32_t last = rule->max == UINT32_MAX ? rule->min : rule->max;
        assert_int_equal(mr_automaton_counted(grammar, rule->start), grammar->counted[i]);
        assert_int_equal(mr_automaton_counted(grammar, rule->start + last), grammar->counted[i]);
    }
    mr_grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_finds_the_edge_of_every_byte),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(counted_states_lead_to_their_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
