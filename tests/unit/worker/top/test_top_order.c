#include "worker/top/top_order.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_order(const struct mr_top_order *order, const double *values, size_t a, size_t b,
                         size_t c, size_t d)
{
    size_t sequence[4];
    mr_top_order_sort(order, values, 4, sequence);
    assert_int_equal(sequence[0], a);
    assert_int_equal(sequence[1], b);
    assert_int_equal(sequence[2], c);
    assert_int_equal(sequence[3], d);
}

static void rows_are_sorted_by_value_and_unknown_values_come_last(void **state)
{
    (void)state;
    const double values[] = {3, (double)NAN, 7, 3};
    struct mr_top_order order = {.sorted = false};
    assert_order(&order, values, 0, 1, 2, 3);
    order.sorted = true;
    assert_order(&order, values, 2, 0, 3, 1);
    order.ascending = true;
    assert_order(&order, values, 0, 3, 2, 1);
}

static void keys_walk_through_the_columns_and_around(void **state)
{
    (void)state;
    struct mr_top_order order = {.sorted = false};
    assert_true(mr_top_order_key(&order, 3, '>'));
    assert_true(order.sorted && order.column == 0);
    mr_top_order_key(&order, 3, '>');
    mr_top_order_key(&order, 3, '>');
    assert_int_equal(order.column, 2);
    mr_top_order_key(&order, 3, '>');
    assert_int_equal(order.column, 0);
    mr_top_order_key(&order, 3, '<');
    assert_int_equal(order.column, 2);
    mr_top_order_key(&order, 3, '<');
    assert_int_equal(order.column, 1);
    mr_top_order_key(&order, 3, 'o');
    assert_false(order.sorted);
    mr_top_order_key(&order, 3, '<');
    assert_int_equal(order.column, 2);
}

static void other_keys_change_nothing(void **state)
{
    (void)state;
    struct mr_top_order order = {.sorted = false};
    assert_false(mr_top_order_key(&order, 3, 'x'));
    assert_false(order.sorted || order.ascending || order.partitions || order.quit);
    assert_true(mr_top_order_key(&order, 3, 'r') && order.ascending);
    assert_true(mr_top_order_key(&order, 3, 'p') && order.partitions);
    assert_true(mr_top_order_key(&order, 3, 'p') && !order.partitions);
    assert_true(mr_top_order_key(&order, 3, 's') && order.slowest);
    assert_true(mr_top_order_key(&order, 3, 's') && !order.slowest);
    assert_true(mr_top_order_key(&order, 3, 'q') && order.quit);
}

static void a_request_is_cancelled_by_two_keys(void **state)
{
    (void)state;
    struct mr_top_order order = {.sorted = false};
    assert_false(mr_top_order_key(&order, 3, 'c')); /* no request is shown */
    mr_top_order_key(&order, 3, 's');
    assert_true(mr_top_order_key(&order, 3, 'j') && mr_top_order_key(&order, 3, 'B'));
    assert_int_equal(order.chosen, 2);
    assert_true(mr_top_order_key(&order, 3, 'A') && mr_top_order_key(&order, 3, 'k'));
    assert_true(mr_top_order_key(&order, 3, 'k'));
    assert_int_equal(order.chosen, 0);
    mr_top_order_key(&order, 3, 'c');
    assert_int_equal(order.cancel, MR_TOP_CANCEL_ASKED);
    mr_top_order_key(&order, 3, 'q');
    assert_true(order.cancel == MR_TOP_CANCEL_NONE && !order.quit);
    mr_top_order_key(&order, 3, 'c');
    mr_top_order_key(&order, 3, 'y');
    assert_int_equal(order.cancel, MR_TOP_CANCEL_SURE);
    assert_true(mr_top_order_key(&order, 3, 't') && order.next_tenant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sorted_by_value_and_unknown_values_come_last),
        cmocka_unit_test(keys_walk_through_the_columns_and_around),
        cmocka_unit_test(a_request_is_cancelled_by_two_keys),
        cmocka_unit_test(other_keys_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
