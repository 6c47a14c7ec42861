#include "worker/cli/topic_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_config config = {.max_record_bytes = 1 << 20, .requests_partitions = 24};

struct findings {
    unsigned fails, warnings;
    char text[1024];
};

static void on_finding(void *context, bool fails, const char *text)
{
    struct findings *findings = context;
    if (fails)
        findings->fails++;
    else
        findings->warnings++;
    size_t length = strlen(findings->text);
    snprintf(findings->text + length, sizeof findings->text - length, "%s", text);
}

static struct findings check(enum mr_topic_role role, uint32_t partitions, const char *cleanup,
                             const char *retention, const char *bytes)
{
    struct findings findings = {.text = ""};
    const struct mr_topic topic = {"t", role};
    char values[MR_TOPIC_SETTINGS][MR_KAFKA_SETTING_BYTES];
    snprintf(values[MR_TOPIC_CLEANUP], MR_KAFKA_SETTING_BYTES, "%s", cleanup);
    snprintf(values[MR_TOPIC_RETENTION], MR_KAFKA_SETTING_BYTES, "%s", retention);
    snprintf(values[MR_TOPIC_BYTES], MR_KAFKA_SETTING_BYTES, "%s", bytes);
    mr_topic_rules_check(&config, &topic, partitions, values, on_finding, &findings);
    return findings;
}

static void what_is_created_has_nothing_wrong(void **state)
{
    (void)state;
    for (unsigned role = MR_TOPIC_REQUESTS; role <= MR_TOPIC_DLQ; role++) {
        struct mr_topic_wishes wishes;
        mr_topic_rules_wish(&wishes, &config, (enum mr_topic_role)role);
        struct findings findings =
            check((enum mr_topic_role)role, wishes.partitions, wishes.values[MR_TOPIC_CLEANUP],
                  wishes.values[MR_TOPIC_RETENTION], wishes.values[MR_TOPIC_BYTES]);
        assert_int_equal(findings.fails + findings.warnings, 0);
    }
}

static void compaction_and_short_lives_fail(void **state)
{
    (void)state;
    struct findings findings = check(MR_TOPIC_RESULTS, 8, "compact,delete", "86400000", "4194304");
    assert_int_equal(findings.fails, 1);
    assert_non_null(strstr(findings.text, "cleanup.policy compact,delete"));
    findings = check(MR_TOPIC_REQUESTS, 8, "delete", "60000", "2000000");
    assert_int_equal(findings.fails, 1);
    assert_non_null(strstr(findings.text, "retention.ms 60000 is short"));
    assert_int_equal(check(MR_TOPIC_TOKENS, 8, "delete", "60000", "1").warnings, 1);
}

static void what_costs_later_is_a_warning(void **state)
{
    (void)state;
    struct findings findings = check(MR_TOPIC_REQUESTS, 1, "delete", "-1", "1048588");
    assert_int_equal(findings.fails, 0);
    assert_int_equal(findings.warnings, 3);
    assert_non_null(strstr(findings.text, "1 partition"));
    assert_non_null(strstr(findings.text, "max.message.bytes 1048588"));
    assert_int_equal(check(MR_TOPIC_DLQ, 1, "delete", "-1", "1148576").warnings, 0);
}

static void unknown_settings_are_not_judged(void **state)
{
    (void)state;
    struct findings findings = check(MR_TOPIC_REQUESTS, 4, "", "", "");
    assert_int_equal(findings.fails + findings.warnings, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_created_has_nothing_wrong),
        cmocka_unit_test(compaction_and_short_lives_fail),
        cmocka_unit_test(what_costs_later_is_a_warning),
        cmocka_unit_test(unknown_settings_are_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
