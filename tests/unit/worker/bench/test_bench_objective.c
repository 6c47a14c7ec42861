#include "worker/bench/bench_objective.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_bench_objective parsed(const char *text)
{
    struct mr_bench_objective objective;
    struct mr_error err = {0};
    if (mr_bench_objective_parse(&objective, text, &err) != MR_OK) fail_msg("%s", err.detail);
    return objective;
}

static void an_objective_has_a_figure_a_statistic_and_a_limit(void **state)
{
    (void)state;
    struct mr_bench_objective objective = parsed("itl-p95=50ms");
    assert_string_equal(objective.figure, "itl");
    assert_string_equal(objective.statistic, "p95");
    assert_true(objective.limit_ms == 50);
    assert_true(mr_bench_objective_needs_stream(&objective));
    objective = parsed("e2el-median=2s");
    assert_true(objective.limit_ms == 2000);
    assert_false(mr_bench_objective_needs_stream(&objective));
}

static void malformed_objectives_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const texts[] = {"",           "ttft",         "ttft-p99",     "ttft-p99=",
                                        "ttft-p99=5", "ttft=p99-5ms", "ttf-p99=5ms",  "ttft-=5ms",
                                        "-p99=5ms",   "ttft-p9=5ms",  "ttft-p99x=5ms"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mr_bench_objective objective;
        struct mr_error err = {0};
        assert_int_equal(mr_bench_objective_parse(&objective, texts[i], &err), MR_BAD_CONFIG);
        assert_non_null(strstr(err.detail, texts[i]));
    }
}

static void objectives_are_met_at_their_limit_and_without_failures(void **state)
{
    (void)state;
    struct mr_bench_objective objectives[] = {parsed("ttft-p99=30ms"), parsed("e2el-max=1s")};
    struct mr_bench_figures figures = {.ttft_ms = {.count = 4, .p99 = 30},
                                       .e2el_ms = {.count = 4, .max = 900}};
    assert_true(mr_bench_objectives_met(objectives, 2, &figures));
    figures.failed = 1;
    assert_false(mr_bench_objectives_met(objectives, 2, &figures));
    figures.failed = 0;
    figures.ttft_ms.p99 = 30.1;
    assert_false(mr_bench_objectives_met(objectives, 2, &figures));
    assert_true(mr_bench_objectives_met(&objectives[1], 1, &figures));
    figures.e2el_ms.count = 0; /* nothing was measured */
    assert_false(mr_bench_objectives_met(&objectives[1], 1, &figures));
}

/* Searches for the capacity of a fleet that meets its objectives up to that capacity. */
static double search(double capacity, double first, size_t *runs)
{
    struct mr_bench_sweep sweep = {0};
    double rate;
    while ((rate = mr_bench_sweep_next(&sweep, first)) > 0)
        mr_bench_sweep_note(&sweep, rate, rate <= capacity);
    *runs = sweep.tried;
    return sweep.good;
}

static void the_sweep_finds_the_capacity_within_ten_percent(void **state)
{
    (void)state;
    static const double capacities[] = {0.03, 0.9, 1, 1.5, 7, 100, 999};
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        size_t runs = 0;
        double found = search(capacities[i], 1, &runs);
        assert_true(found <= capacities[i] && found * 1.11 >= capacities[i]);
        assert_true(runs <= MR_BENCH_SWEEP_MAX);
    }
}

static void a_sweep_ends_when_no_rate_or_every_rate_is_good(void **state)
{
    (void)state;
    size_t runs = 0;
    assert_true(search(0, 1, &runs) <= 0);
    assert_int_equal(runs, MR_BENCH_SWEEP_MAX);
    assert_true(search(1e30, 1, &runs) >= 1000);
    assert_int_equal(runs, MR_BENCH_SWEEP_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_objective_has_a_figure_a_statistic_and_a_limit),
        cmocka_unit_test(malformed_objectives_are_refused_by_name),
        cmocka_unit_test(objectives_are_met_at_their_limit_and_without_failures),
        cmocka_unit_test(the_sweep_finds_the_capacity_within_ten_percent),
        cmocka_unit_test(a_sweep_ends_when_no_rate_or_every_rate_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
