#include "worker/bench/bench_tally.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS ((uint64_t)1000000)

static const uint32_t ids[8];

static struct mr_bench_tally *make(uint32_t requests, size_t gaps)
{
    struct mr_bench_tally *tally = NULL;
    assert_int_equal(mr_bench_tally_create(&tally, requests, gaps, NULL), MR_OK);
    return tally;
}

static void tokens(struct mr_bench_tally *tally, uint32_t number, uint32_t attempt, size_t count,
                   uint64_t now_ns)
{
    struct mr_token_record record = {.attempt = attempt, .token_ids = ids, .token_count = count};
    mr_bench_tally_tokens(tally, number, &record, now_ns);
}

static void result(struct mr_bench_tally *tally, uint32_t number, enum mr_finish finish,
                   uint64_t now_ns)
{
    struct mr_choice choice = {.finish = finish, .completion_tokens = 3};
    struct mr_result made = {.choices = &choice, .choice_count = 1, .prompt_tokens = 10};
    mr_bench_tally_result(tally, number, &made, now_ns);
}

static struct mr_bench_figures figures_of(struct mr_bench_tally *tally)
{
    struct mr_bench_figures figures;
    mr_bench_tally_check(tally);
    assert_int_equal(mr_bench_tally_figures(tally, &figures, NULL), MR_OK);
    mr_bench_tally_destroy(tally);
    return figures;
}

static bool near(double a, double b)
{
    return a - b < 1e-4 && b - a < 1e-4;
}

static void percentiles_are_interpolated_between_neighbours(void **state)
{
    (void)state;
    double values[] = {40, 10, 30, 20};
    struct mr_bench_summary summary = mr_bench_summarize(values, 4);
    assert_int_equal(summary.count, 4);
    assert_true(near(summary.mean, 25) && near(summary.median, 25));
    assert_true(near(summary.std, 11.18034));
    assert_true(near(summary.p75, 32.5) && near(summary.p99, 39.7));
    assert_true(near(summary.min, 10) && near(summary.max, 40));
}

static void no_value_and_one_value_have_summaries_too(void **state)
{
    (void)state;
    double one = 7;
    struct mr_bench_summary none = mr_bench_summarize(&one, 0);
    assert_true(none.count == 0 && near(none.mean, 0) && near(none.p99, 0));
    struct mr_bench_summary single = mr_bench_summarize(&one, 1);
    assert_true(near(single.mean, 7) && near(single.median, 7) && near(single.p99, 7));
    assert_true(near(single.std, 0));
}

static void times_are_those_of_the_records(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(2, 16);
    mr_bench_tally_sent(tally, 0, 1000 * MS);
    tokens(tally, 0, 1, 1, 1100 * MS);
    tokens(tally, 0, 1, 1, 1120 * MS);
    tokens(tally, 0, 1, 2, 1160 * MS);
    result(tally, 0, MR_FINISH_LENGTH, 1500 * MS);
    struct mr_bench_figures figures = figures_of(tally);
    assert_int_equal(figures.completed, 1);
    assert_true(near(figures.ttft_ms.mean, 100));
    assert_true(near(figures.tpot_ms.mean, 20)); /* 60 ms for three tokens after the first */
    assert_int_equal(figures.itl_ms.count, 2);
    assert_true(near(figures.itl_ms.min, 20) && near(figures.itl_ms.max, 40));
    assert_true(near(figures.e2el_ms.mean, 500) && near(figures.duration_s, 0.5));
    assert_true(near(figures.output_throughput, 6) && near(figures.total_throughput, 26));
    assert_true(near(figures.peak_output_throughput, 4));
}

static void rejected_and_unfinished_requests_fail_and_do_not_count_in_the_times(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(4, 16);
    for (uint32_t i = 0; i < 4; i++)
        mr_bench_tally_sent(tally, i, MS);
    tokens(tally, 0, 1, 1, 2 * MS);
    tokens(tally, 0, 1, 1, 900 * MS);
    result(tally, 0, MR_FINISH_REJECTED, 1000 * MS);
    tokens(tally, 1, 1, 1, 3 * MS);
    result(tally, 1, MR_FINISH_EOS, 4 * MS);
    result(tally, 2, MR_FINISH_REJECTED, 5 * MS);
    assert_int_equal(mr_bench_tally_in_flight(tally), 1);
    assert_int_equal(mr_bench_tally_ended(tally), 3);
    struct mr_bench_figures figures = figures_of(tally);
    assert_true(figures.completed == 1 && figures.failed == 3 && figures.peak_concurrent == 4);
    assert_true(figures.itl_ms.count == 0 && figures.ttft_ms.count == 1);
    assert_true(near(figures.ttft_ms.max, 2));
    assert_int_equal(figures.output_tokens, 3);
}

static void duplicate_late_and_unknown_records_are_ignored(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(2, 16);
    mr_bench_tally_sent(tally, 0, MS);
    tokens(tally, 0, 1, 1, 2 * MS);
    result(tally, 0, MR_FINISH_EOS, 3 * MS);
    result(tally, 0, MR_FINISH_REJECTED, 4 * MS);
    tokens(tally, 0, 1, 1, 5 * MS);
    tokens(tally, 1, 1, 1, 6 * MS); /* not sent yet */
    result(tally, 99, MR_FINISH_EOS, 6 * MS);
    struct mr_bench_figures figures = figures_of(tally);
    assert_true(figures.completed == 1 && figures.failed == 0 && figures.itl_ms.count == 0);
}

static void a_higher_attempt_restarts_the_count_and_a_lower_one_is_stale(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(1, 16);
    mr_bench_tally_sent(tally, 0, 0);
    tokens(tally, 0, 1, 5, 10 * MS);
    tokens(tally, 0, 2, 1, 20 * MS);
    tokens(tally, 0, 1, 1, 30 * MS);
    tokens(tally, 0, 2, 2, 40 * MS);
    result(tally, 0, MR_FINISH_LENGTH, 50 * MS);
    struct mr_bench_figures figures = figures_of(tally);
    assert_int_equal(figures.itl_ms.count, 2);
    assert_true(near(figures.tpot_ms.mean, 15)); /* 10 to 40 ms, two tokens after the first */
}

static void gaps_beyond_the_maximum_are_counted_and_not_stored(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(1, 1);
    mr_bench_tally_sent(tally, 0, 0);
    for (uint64_t i = 1; i <= 4; i++)
        tokens(tally, 0, 1, 1, i * MS);
    result(tally, 0, MR_FINISH_LENGTH, 9 * MS);
    struct mr_bench_figures figures = figures_of(tally);
    assert_true(figures.itl_ms.count == 1 && figures.gaps_left_out == 2);
}

static void a_series_divides_the_run_into_equal_intervals(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(2, 16);
    struct mr_bench_point points[2];
    mr_bench_tally_sent(tally, 0, 1000 * MS);
    mr_bench_tally_sent(tally, 1, 1000 * MS);
    tokens(tally, 0, 1, 1, 1200 * MS);
    tokens(tally, 0, 1, 2, 1300 * MS);
    tokens(tally, 1, 1, 1, 1700 * MS);
    result(tally, 0, MR_FINISH_LENGTH, 1400 * MS);
    result(tally, 1, MR_FINISH_LENGTH, 2000 * MS);
    assert_int_equal(mr_bench_tally_series(tally, points, 2, NULL), MR_OK);
    assert_true(fabs(points[0].at_s - 0.25) < 1e-3 && fabs(points[1].at_s - 0.75) < 1e-3);
    assert_true(fabs(points[0].output_tokens_per_s - 6) < 1e-3); /* three in half a second */
    assert_true(fabs(points[1].output_tokens_per_s - 2) < 1e-3);
    assert_true(fabs(points[0].requests_per_s - 2) < 1e-3);
    assert_true(fabs(points[1].requests_per_s - 2) < 1e-3);
    assert_true(points[0].in_flight == 2 && points[1].in_flight == 1);
    assert_true(near(points[0].ttft_median_ms, 200) && near(points[1].ttft_p99_ms, 700));
    assert_true(fabs(points[0].itl_p99_ms - 100) < 0.01 && isnan(points[1].itl_median_ms));
    mr_bench_tally_destroy(tally);
}

static void a_request_is_sent_once_only(void **state)
{
    (void)state;
    struct mr_bench_tally *tally = make(1, 1);
    mr_bench_tally_sent(tally, 0, 0);
    expect_assert_failure(mr_bench_tally_sent(tally, 0, 0));
    expect_assert_failure(mr_bench_tally_sent(tally, 1, 0));
    mr_bench_tally_destroy(tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_interpolated_between_neighbours),
        cmocka_unit_test(no_value_and_one_value_have_summaries_too),
        cmocka_unit_test(times_are_those_of_the_records),
        cmocka_unit_test(rejected_and_unfinished_requests_fail_and_do_not_count_in_the_times),
        cmocka_unit_test(duplicate_late_and_unknown_records_are_ignored),
        cmocka_unit_test(a_higher_attempt_restarts_the_count_and_a_lower_one_is_stale),
        cmocka_unit_test(gaps_beyond_the_maximum_are_counted_and_not_stored),
        cmocka_unit_test(a_series_divides_the_run_into_equal_intervals),
        cmocka_unit_test(a_request_is_sent_once_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
