#include "worker/top/top_row.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char before[] =
    "# TYPE millrace_ready gauge\n"
    "millrace_ready 1\n"
    "millrace_requests_finished_total{reason=\"eos\",code=\"\",topic=\"a\",tenant=\"red\"} 10\n"
    "millrace_requests_finished_total{reason=\"eos\",code=\"\",topic=\"b\",tenant=\"blue\"} 20\n"
    "millrace_prefix_cache_queries_tokens_total{tier=\"local\"} 100\n"
    "millrace_prefix_cache_hits_tokens_total{tier=\"local\"} 40\n";
static const char now[] =
    "# TYPE millrace_ready gauge\n"
    "millrace_ready 1\n"
    "millrace_tier_up 1\n"
    "millrace_requests_running 7\n"
    "millrace_kv_usage_ratio 0.25\n"
    "millrace_requests_finished_total{reason=\"eos\",code=\"\",topic=\"a\",tenant=\"red\"} 14\n"
    "millrace_requests_finished_total{reason=\"eos\",code=\"\",topic=\"b\",tenant=\"blue\"} 30\n"
    "millrace_requests_finished_total{reason=\"length\",code=\"\",topic=\"a\",tenant=\"red\"} 2\n"
    "millrace_consumer_lag{topic=\"a\",partition=\"0\"} 3\n"
    "millrace_consumer_lag{topic=\"a\",partition=\"1\"} 4\n"
    "millrace_consumer_lag{topic=\"b\",partition=\"0\"} 50\n"
    "millrace_prefix_cache_queries_tokens_total{tier=\"local\"} 200\n"
    "millrace_prefix_cache_hits_tokens_total{tier=\"local\"} 90\n";

static double value(const struct mr_top_row *row, const char *name)
{
    for (size_t i = 0; i < MR_TOP_COLUMNS; i++)
        if (strcmp(mr_top_columns[i].json, name) == 0) return row->values[i];
    fail_msg("no column %s", name);
    return 0;
}

static void expect(const struct mr_top_row *row, const char *name, double want)
{
    double have = value(row, name);
    if (fabs(have - want) > 1e-9) fail_msg("%s is %g, not %g", name, have, want);
}

static void a_row_has_the_rates_between_two_pages(void **state)
{
    (void)state;
    struct mr_top_row row;
    mr_top_row_fill(&row, &(struct mr_top_pages){before, now, 2}, "");
    expect(&row, "ready", 1);
    expect(&row, "running", 7);
    expect(&row, "lag", 57);
    expect(&row, "requests_per_second", 8);
    expect(&row, "kv_percent", 25);
    expect(&row, "prefix_hit_percent", 50);
    expect(&row, "redis_up", 1);
    assert_true(isnan(value(&row, "first_token_p95_seconds")));
}

static void a_first_page_has_no_rates(void **state)
{
    (void)state;
    struct mr_top_row row;
    mr_top_row_fill(&row, &(struct mr_top_pages){NULL, before, 0}, "");
    expect(&row, "ready", 1);
    assert_true(isnan(value(&row, "requests_per_second")));
    assert_true(isnan(value(&row, "prefix_hit_percent")));
    assert_true(isnan(value(&row, "redis_up")));
}

static void requests_and_lag_are_those_of_the_tenant(void **state)
{
    (void)state;
    struct mr_top_row row;
    mr_top_row_fill(&row, &(struct mr_top_pages){before, now, 2}, "red");
    expect(&row, "requests_per_second", 3);
    expect(&row, "lag", 7);
    expect(&row, "running", 7);
    mr_top_row_fill(&row, &(struct mr_top_pages){before, now, 2}, "re");
    expect(&row, "requests_per_second", 0);
    expect(&row, "lag", 0);
}

static void tenants_follow_each_other_by_name(void **state)
{
    (void)state;
    static const char other[] =
        "millrace_requests_finished_total{reason=\"eos\",topic=\"c\",tenant=\"green\"} 1\n";
    static const char *const order[] = {"", "blue", "green", "red", ""};
    for (size_t i = 0; i + 1 < sizeof order / sizeof *order; i++) {
        char next[MR_TOP_TENANT_BYTES] = "";
        mr_top_row_next_tenant(now, order[i], next);
        mr_top_row_next_tenant(other, order[i], next);
        assert_string_equal(next, order[i + 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_rates_between_two_pages),
        cmocka_unit_test(a_first_page_has_no_rates),
        cmocka_unit_test(requests_and_lag_are_those_of_the_tenant),
        cmocka_unit_test(tenants_follow_each_other_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
