#include "builders.h"

#include "codec/grammar/nfa.h"

#include <stdio.h>

/* True when the deterministic automaton accepts the text; it has no calls. */
static bool accepts(const struct mr_dfa *dfa, const char *text)
{
    uint32_t state = 0;
    for (; *text; text++) {
        const struct mr_dfa_state *at = &dfa->states[state];
        uint32_t next = MR_NFA_NONE;
        for (uint32_t i = 0; i < at->edge_count; i++) {
            const struct mr_dfa_edge *edge = &dfa->edges[at->edges + i];
            if ((unsigned char)*text >= edge->low && (unsigned char)*text <= edge->high)
                next = edge->target;
        }
        if (next == MR_NFA_NONE) return false;
        state = next;
    }
    return dfa->states[state].accepts;
}

static void edges_are_sorted_and_apart(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_dfa dfa;
    begin(&builder, NULL);
    const struct mr_expr *items[3] = {mr_expr_range(&builder, 'a', 'm'),
                                      mr_expr_range(&builder, 'k', 'z'),
                                      mr_expr_word(&builder, "lx")};
    mr_dfa_build(&dfa, &builder, mr_expr_alt(&builder, items, 3), true);
    for (uint32_t s = 0; s < dfa.state_count; s++)
        for (uint32_t e = 1; e < dfa.states[s].edge_count; e++)
            assert_true(dfa.edges[dfa.states[s].edges + e].low >
                        dfa.edges[dfa.states[s].edges + e - 1].high);
    assert_true(accepts(&dfa, "a") && accepts(&dfa, "z") && accepts(&dfa, "l"));
    assert_true(accepts(&dfa, "lx") && !accepts(&dfa, "kx") && !accepts(&dfa, ""));
    mr_dfa_drop(&dfa);
    mr_expr_builder_drop(&builder);
}

static void products_intersect_and_subtract(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_dfa dfa;
    begin(&builder, NULL);
    const struct mr_expr *letters =
        mr_expr_repeat(&builder, mr_expr_range(&builder, 'a', 'c'), 0, MR_EXPR_UNBOUNDED);
    const struct mr_expr *two = mr_expr_repeat(&builder, mr_expr_range(&builder, 'b', 'z'), 2, 2);
    mr_dfa_build(&dfa, &builder, mr_expr_and(&builder, letters, two), true);
    assert_true(accepts(&dfa, "bc") && !accepts(&dfa, "ab") && !accepts(&dfa, "b") &&
                !accepts(&dfa, "bz"));
    mr_dfa_drop(&dfa);
    mr_dfa_build(&dfa, &builder, mr_expr_minus(&builder, letters, two), true);
    assert_true(accepts(&dfa, "") && accepts(&dfa, "ab") && accepts(&dfa, "bcb") &&
                !accepts(&dfa, "bc"));
    mr_dfa_drop(&dfa);
    mr_expr_builder_drop(&builder);
}

static void multiples_follow_the_remainder(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_dfa dfa;
    begin(&builder, NULL);
    mr_dfa_build(&dfa, &builder, mr_expr_multiple(&builder, 37, 0), true);
    for (int i = 0; i < 2000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(accepts(&dfa, text), i % 37 == 0);
    }
    mr_dfa_drop(&dfa);
    mr_expr_builder_drop(&builder);
}

static void lists_keep_their_separators(void **state)
{
    (void)state;
    static const bool optional[] = {true, false, true};
    struct mr_expr_builder builder;
    struct mr_dfa dfa;
    begin(&builder, NULL);
    const struct mr_expr *comma = mr_expr_word(&builder, ",");
    const struct mr_expr *items[6] = {mr_expr_word(&builder, "a"), mr_expr_word(&builder, "b"),
                                      mr_expr_word(&builder, "c"), comma,
                                      mr_expr_word(&builder, "!"), mr_expr_empty()};
    mr_dfa_build(&dfa, &builder, mr_expr_list(&builder, items, optional, 3, 0, MR_EXPR_UNBOUNDED),
                 true);
    static const char *const yes[] = {"b", "a,b", "b,c", "a,b,c"};
    static const char *const no[] = {"", "a", "c", "a,c", "b,", ",b", "ab", "b,a", "!"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        assert_true(accepts(&dfa, yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(accepts(&dfa, no[i]));
    mr_dfa_drop(&dfa);
    mr_expr_builder_drop(&builder);
}

static void an_explosion_of_states_is_stopped(void **state)
{
    (void)state;
    struct mr_expr_builder builder;
    struct mr_error err;
    struct mr_dfa dfa;
    begin(&builder, &err);
    const struct mr_expr *any = mr_expr_range(&builder, 0, 255);
    const struct mr_expr *items[3] = {mr_expr_repeat(&builder, any, 0, MR_EXPR_UNBOUNDED),
                                      mr_expr_word(&builder, "a"),
                                      mr_expr_repeat(&builder, any, 24, 24)};
    mr_dfa_build(&dfa, &builder, mr_expr_seq(&builder, items, 3), true);
    assert_int_equal(builder.status, MR_INVALID_REQUEST);
    mr_dfa_drop(&dfa);
    mr_expr_builder_drop(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_sorted_and_apart),
        cmocka_unit_test(products_intersect_and_subtract),
        cmocka_unit_test(multiples_follow_the_remainder),
        cmocka_unit_test(lists_keep_their_separators),
        cmocka_unit_test(an_explosion_of_states_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
