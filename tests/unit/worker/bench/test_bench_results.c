#include "worker/bench/bench_results.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void the_best_run_is_the_last_or_the_one_at_the_highest_rate_that_is_met(void **state)
{
    (void)state;
    struct mr_bench_results *results = calloc(1, sizeof *results);
    assert_non_null(results);
    static const double rates[] = {1, 2, 4, 3};
    for (size_t i = 0; i < 4; i++) {
        results->runs[i].setting.rate = rates[i];
        results->runs[i].met = rates[i] < 3;
    }
    results->run_count = 4;
    assert_ptr_equal(mr_bench_results_best(results), &results->runs[3]);
    results->highest_rate = 2;
    assert_ptr_equal(mr_bench_results_best(results), &results->runs[1]);
    free(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_run_is_the_last_or_the_one_at_the_highest_rate_that_is_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
