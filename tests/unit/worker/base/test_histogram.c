#include "worker/base/histogram.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double bounds[] = {0.5, 1, 10};

static char *printed(const struct mr_histogram *histogram, const char *labels)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    mr_histogram_print(histogram, "h", labels, out);
    fclose(out);
    return text;
}

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

static void buckets_are_printed_cumulative(void **state)
{
    (void)state;
    struct mr_histogram histogram;
    mr_histogram_init(&histogram, bounds, 3);
    mr_histogram_observe(&histogram, 0.25);
    mr_histogram_observe(&histogram, 5);
    mr_histogram_observe(&histogram, 50);
    char *text = printed(&histogram, "");
    assert_string_equal(text, "h_bucket{le=\"0.5\"} 1\nh_bucket{le=\"1\"} 1\n"
                              "h_bucket{le=\"10\"} 2\nh_bucket{le=\"+Inf\"} 3\n"
                              "h_sum 55.25\nh_count 3\n");
    free(text);
    text = printed(&histogram, "a=\"b\"");
    assert_non_null(strstr(text, "h_bucket{a=\"b\",le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(text, "h_sum{a=\"b\"} 55.25\n"));
    free(text);
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
        cmocka_unit_test(buckets_are_printed_cumulative),
        cmocka_unit_test(a_nan_counts_as_zero_in_the_sum),
        cmocka_unit_test(bounds_must_increase_and_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
