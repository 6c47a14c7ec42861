#include "ops/decode_graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Whether a listed graph has room for a step. */
static bool has_room(const struct mr_decode_graph *graphs, uint32_t count, uint32_t rows,
                     uint32_t tokens)
{
    for (uint32_t i = 0; i < count; i++)
        if (graphs[i].rows >= rows && graphs[i].tokens >= tokens) return true;
    return false;
}

static void every_step_has_a_graph_unless_it_is_long_and_large(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    const uint32_t count = mr_decode_graphs_list(256, 131072, graphs);
    assert_int_equal(count, 34);
    assert_true(has_room(graphs, count, 256, 1024) && has_room(graphs, count, 256, 4096));
    assert_true(has_room(graphs, count, 64, 16384));
    assert_false(has_room(graphs, count, 65, 4097) || has_room(graphs, count, 1, 16385));
    for (uint32_t i = 0; i < count; i++)
        assert_true((uint64_t)graphs[i].rows * graphs[i].tokens <= 1048576);
}

static void graphs_come_by_falling_rows_and_rising_tokens(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    const uint32_t count = mr_decode_graphs_list(48, 1500, graphs);
    const uint32_t rows[] = {48, 32, 16, 8, 4, 2, 1};
    assert_int_equal(count, 14);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(graphs[i].rows, rows[i / 2]);
        assert_int_equal(graphs[i].tokens, i % 2 == 0 ? 1024 : 2048);
    }
}

static void short_contexts_and_single_rows_have_few(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    assert_int_equal(mr_decode_graphs_list(1, 1024, graphs), 1);
    assert_int_equal(graphs[0].rows, 1);
    assert_int_equal(graphs[0].tokens, 1024);
    assert_int_equal(mr_decode_graphs_list(0, 1024, graphs), 0);
}

static void the_largest_list_fits(void **state)
{
    struct mr_decode_graph graphs[MR_DECODE_GRAPHS_MAX];
    (void)state;
    assert_true(mr_decode_graphs_list(UINT32_MAX, UINT32_MAX, graphs) <= MR_DECODE_GRAPHS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_has_a_graph_unless_it_is_long_and_large),
        cmocka_unit_test(graphs_come_by_falling_rows_and_rising_tokens),
        cmocka_unit_test(short_contexts_and_single_rows_have_few),
        cmocka_unit_test(the_largest_list_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
