#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/tier_metrics.h"

#include <stdlib.h>
#include <string.h>

static void figures_follow_what_is_there(void **state)
{
    struct mr_tier_redis_stats stats = {.rates = {.up = true, .bytes_per_second = 5},
                                        .client = {.connects = 3}};
    char *text = strdup("before 1\n");
    size_t length = strlen(text);
    (void)state;
    stats.queue.counters[MR_TIER_ITEMS_LOADED] = 7;
    assert_int_equal(mr_tier_metrics_append(&stats, &text, &length, NULL), MR_OK);
    assert_int_equal(strlen(text), length);
    assert_memory_equal(text, "before 1\n# HELP ", 16);
    assert_non_null(strstr(text, "\nmillrace_tier_up 1\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_items_loaded_total 7\n"));
    assert_non_null(strstr(text, "\n# TYPE millrace_tier_connects_total counter\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_connects_total 3\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_follow_what_is_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
