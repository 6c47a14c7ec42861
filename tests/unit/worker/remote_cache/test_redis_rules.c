#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/redis_rules.h"

#include <stdio.h>
#include <string.h>

struct findings {
    char text[2048];
    unsigned failures, warnings;
};

static void find(void *context, bool fails, const char *text)
{
    struct findings *findings = context;
    size_t used = strlen(findings->text);
    snprintf(findings->text + used, sizeof findings->text - used, "%s\n", text);
    *(fails ? &findings->failures : &findings->warnings) += 1;
}

static const struct mr_redis_survey healthy = {
    .version = "7.0.15",
    .has_policy = true,
    .has_clock = true,
    .policy = {.maxmemory_bytes = 1 << 30, .eviction = "allkeys-lru"},
    .clock_ms = -900,
};

static struct findings found(const struct mr_redis_survey *survey)
{
    struct findings findings = {0};
    mr_redis_rules_check(survey, true, find, &findings);
    return findings;
}

static void a_healthy_server_raises_nothing(void **state)
{
    char text[128];
    (void)state;
    struct findings findings = found(&healthy);
    assert_string_equal(findings.text, "");
    mr_redis_rules_describe(&healthy, text, sizeof text);
    assert_string_equal(text, ", Redis 7.0.15, 1024 MiB, allkeys-lru");
}

static void a_missing_right_fails_and_missing_info_warns(void **state)
{
    struct mr_redis_survey survey = healthy;
    (void)state;
    snprintf(survey.denied, sizeof survey.denied, "set del");
    struct findings findings = found(&survey);
    assert_int_equal(findings.failures, 1);
    assert_non_null(strstr(findings.text, "may not run set del,"));
    survey = (struct mr_redis_survey){.denied = "info"};
    findings = found(&survey);
    assert_true(findings.failures == 0 && findings.warnings == 1);
}

static void a_replica_fails(void **state)
{
    struct mr_redis_survey survey = healthy;
    (void)state;
    survey.is_replica = true;
    assert_int_equal(found(&survey).failures, 1);
}

static void a_policy_that_keeps_everything_warns(void **state)
{
    struct mr_redis_survey survey = healthy;
    char text[128];
    (void)state;
    survey.policy = (struct mr_redis_policy){.maxmemory_bytes = 0, .eviction = "noeviction"};
    struct findings findings = found(&survey);
    assert_true(findings.failures == 0 && findings.warnings == 1);
    mr_redis_rules_describe(&survey, text, sizeof text);
    assert_string_equal(text, ", Redis 7.0.15, no memory limit");
}

static void a_clock_that_differs_by_more_than_a_second_warns(void **state)
{
    struct mr_redis_survey survey = healthy;
    (void)state;
    survey.clock_ms = 1001;
    struct findings findings = found(&survey);
    assert_non_null(strstr(findings.text, "1.0 seconds ahead of this machine's"));
    survey.clock_ms = -2600;
    findings = found(&survey);
    assert_non_null(strstr(findings.text, "2.6 seconds behind this machine's"));
    assert_true(findings.failures == 0 && findings.warnings == 1);
}

static void a_server_that_says_nothing_is_not_described(void **state)
{
    struct mr_redis_survey survey = {0};
    char text[8] = "x";
    (void)state;
    mr_redis_rules_describe(&survey, text, sizeof text);
    assert_string_equal(text, "");
    assert_string_equal(found(&survey).text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_server_raises_nothing),
        cmocka_unit_test(a_missing_right_fails_and_missing_info_warns),
        cmocka_unit_test(a_replica_fails),
        cmocka_unit_test(a_policy_that_keeps_everything_warns),
        cmocka_unit_test(a_clock_that_differs_by_more_than_a_second_warns),
        cmocka_unit_test(a_server_that_says_nothing_is_not_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
