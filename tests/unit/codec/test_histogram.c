#include "codec/histogram.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const double bounds[] = {0.5, 1, 10};

static void a_value_counts_up_to_and_including_its_bound(void **state)
{
    (void)state;
    struct mr_histogram histogram;
    mr_histogram_init(&histogram, bounds, 3);
    static const double values[] = {0, 0.5, 0.500001, 10, 11, -1};
    for (size_t i = 0; i < 6; i++)
        mr_histogram_observe(&histogram, values[i]);
    assert_int_equal(histogram.counts[0], 3);
    assert_int_equal(histogram.counts[1], 1);
    assert_int_equal(histogram.counts[2], 1);
    assert_int_equal(histogram.counts[3], 1);
    assert_int_equal(mr_histogram_count(&histogram), 6);
    mr_histogram_check(&histogram);
}

static void a_nan_counts_as_zero_in_the_sum(void **state)
{
    (void)state;
    struct mr_histogram histogram;
    mr_histogram_init(&histogram, bounds, 3);
    mr_histogram_observe(&histogram, (double)NAN);
    assert_true(histogram.sum == 0 && histogram.counts[0] == 1);
}

static void bounds_must_increase_and_fit(void **state)
{
    (void)state;
    static const double falling[] = {1, 1};
    struct mr_histogram histogram;
    mr_histogram_init(&histogram, falling, 2);
    expect_assert_failure(mr_histogram_check(&histogram));
    expect_assert_failure(mr_histogram_init(&histogram, bounds, MR_HISTOGRAM_BOUNDS_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_counts_up_to_and_including_its_bound),
        cmocka_unit_test(a_nan_counts_as_zero_in_the_sum),
        cmocka_unit_test(bounds_must_increase_and_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
