#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/remote_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void metrics_are_appended_to_the_text(void **state)
{
    static const double bounds[] = {1};
    struct mr_redis_cache_stats stats = {.rates = {.up = true, .bytes_per_second = 5},
                                         .client = {.connects = 3, .asked = 4}};
    char *text = strdup("before 1\n");
    size_t length = strlen(text);
    (void)state;
    stats.queue.counters[MR_REMOTE_VALUES_LOADED] = 7;
    stats.queue.damaged[MR_VERDICT_VERSION] = 2;
    mr_histogram_init(&stats.queue.lookup_seconds, bounds, 1);
    mr_histogram_init(&stats.queue.load_seconds, bounds, 1);
    mr_histogram_observe(&stats.queue.lookup_seconds, 0.5);
    assert_int_equal(mr_remote_metrics_append(&stats, &text, &length, NULL), MR_OK);
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

static void expect_line(const struct mr_redis_cache_stats *stats, const char *one,
                        const char *other)
{
    const struct mr_remote_prefix_stats shared = {.lookup_tokens = 400};
    char line[MR_LOG_LINE_BYTES];
    struct mr_log *log = NULL;
    FILE *file = tmpfile();
    assert_non_null(file);
    const struct mr_log_options options = {
        .fd = fileno(file), .format = MR_LOG_JSON, .level = MR_LOG_INFO, .worker = "w"};
    assert_int_equal(mr_log_create(&log, &options, NULL), MR_OK);
    mr_remote_metrics_log(stats, &shared, log);
    ssize_t length = pread(fileno(file), line, sizeof line - 1, 0);
    assert_true(length > 0);
    line[length] = '\0';
    assert_non_null(strstr(line, one));
    assert_non_null(strstr(line, other));
    assert_non_null(strstr(line, "\"tokens_looked_up\":400,"));
    mr_log_destroy(log);
    fclose(file);
}

static void the_line_has_rates_and_counters(void **state)
{
    struct mr_redis_cache_stats stats = {
        .rates = {.up = true, .bytes_per_second = 1.5e9, .round_trip_ns = 400000}};
    (void)state;
    stats.queue.counters[MR_REMOTE_VALUES_GONE] = 12;
    stats.queue.damaged[MR_VERDICT_DAMAGED] = 2;
    stats.queue.damaged[MR_VERDICT_FOREIGN] = 3;
    expect_line(&stats, "\"up\":1,\"round_trip_us\":400,\"load_mb_per_second\":1500,",
                "\"items_gone\":12,\"items_damaged\":5,");
    stats = (struct mr_redis_cache_stats){0};
    expect_line(&stats, "\"msg\":\"Redis statistics\",\"up\":0,", "\"lookups\":0,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_are_appended_to_the_text),
        cmocka_unit_test(the_line_has_rates_and_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
