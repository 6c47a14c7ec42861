#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/redis/tier_metrics.h"

#include <stdlib.h>
#include <string.h>

static void metrics_are_appended_to_the_text(void **state)
{
    static const double bounds[] = {1};
    struct mr_tier_redis_stats stats = {.rates = {.up = true, .bytes_per_second = 5},
                                        .client = {.connects = 3, .asked = 4}};
    char *text = strdup("before 1\n");
    size_t length = strlen(text);
    (void)state;
    stats.queue.counters[MR_TIER_ITEMS_LOADED] = 7;
    stats.queue.damaged[MR_VERDICT_VERSION] = 2;
    mr_histogram_init(&stats.queue.lookup_seconds, bounds, 1);
    mr_histogram_init(&stats.queue.load_seconds, bounds, 1);
    mr_histogram_observe(&stats.queue.lookup_seconds, 0.5);
    assert_int_equal(mr_tier_metrics_append(&stats, &text, &length, NULL), MR_OK);
    assert_int_equal(strlen(text), length);
    assert_memory_equal(text, "before 1\n# HELP ", 16);
    assert_non_null(strstr(text, "\nmillrace_tier_up 1\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_items_loaded_total 7\n"));
    assert_non_null(strstr(text, "\n# TYPE millrace_tier_connects_total counter\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_connects_total 3\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_redirects_total{kind=\"ask\"} 4\n"));
    assert_non_null(
        strstr(text, "\nmillrace_tier_verify_failures_total{cause=\"another version\"} 2\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_look_seconds_count 1\n"));
    assert_non_null(strstr(text, "\nmillrace_tier_load_seconds_count 0\n"));
    free(text);
}

static void the_line_has_rates_and_counters(void **state)
{
    struct mr_tier_redis_stats stats = {
        .rates = {.up = true, .bytes_per_second = 1.5e9, .round_trip_ns = 400000}};
    char line[MR_TIER_LINE_BYTES];
    (void)state;
    stats.queue.counters[MR_TIER_ITEMS_GONE] = 12;
    stats.queue.damaged[MR_VERDICT_DAMAGED] = 2;
    stats.queue.damaged[MR_VERDICT_FOREIGN] = 3;
    mr_tier_metrics_line(&stats, line);
    assert_memory_equal(line, "up, lookup 0.40 ms, load 1.50 GB/s;", 35);
    assert_non_null(strstr(line, "gone 12, damaged 5, "));
    stats = (struct mr_tier_redis_stats){0};
    mr_tier_metrics_line(&stats, line);
    assert_memory_equal(line, "down, ", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_appended_to_the_text),
        cmocka_unit_test(the_line_has_rates_and_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
