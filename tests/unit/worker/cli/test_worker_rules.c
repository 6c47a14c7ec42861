#include "worker/cli/worker_rules.h"

#include "worker/config/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

struct findings {
    char text[8192];
    size_t count;
};

static void find(void *context, const char *text)
{
    struct findings *findings = context;
    size_t used = strlen(findings->text);
    snprintf(findings->text + used, sizeof findings->text - used, "%s\n", text);
    findings->count++;
}

static struct mr_config *configured(const char *const *flags, size_t count)
{
    char copies[16][128], *words[20] = {"millrace", "serve", "--brokers=b:1", "--model=m"};
    char *environment[] = {NULL};
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    for (size_t i = 0; i < count; i++) {
        snprintf(copies[i], sizeof copies[i], "%s", flags[i]);
        words[4 + i] = copies[i];
    }
    if (mr_config_create(&config, (int)(4 + count), words, environment, &err) != MR_OK)
        fail_msg("%s", err.detail);
    return config;
}

/* The findings with these flags. */
static struct findings found(const char *const *flags, size_t count, bool worker_id_given)
{
    struct findings findings = {.count = 0};
    struct mr_config *config = configured(flags, count);
    mr_worker_rules_check(config, worker_id_given, find, &findings);
    mr_config_destroy(config);
    return findings;
}

static void the_defaults_raise_no_warning_but_one_of_the_drain_timeout(void **state)
{
    (void)state;
    struct findings findings = found(NULL, 0, false);
    assert_int_equal(findings.count, 0);
    static const char *const longer[] = {"--drain-timeout=26s"};
    findings = found(longer, 1, false);
    assert_int_equal(findings.count, 1);
    assert_non_null(strstr(findings.text, "terminationGracePeriodSeconds"));
}

static void each_risky_combination_is_named(void **state)
{
    (void)state;
    static const char *const exactly[] = {"--delivery=exactly-once"};
    assert_non_null(strstr(found(exactly, 1, false).text, "exactly-once without --worker-id"));
    assert_int_equal(found(exactly, 1, true).count, 0);
    static const char *const member[] = {"--group-instance=a"};
    assert_non_null(strstr(found(member, 1, false).text, "--group-instance without --worker-id"));
    static const char *const run[] = {"--duplicate-id=run"};
    assert_non_null(strstr(found(run, 1, false).text, "--duplicate-id run"));
    static const char *const redis[] = {"--redis=redis://far:6379/0"};
    assert_non_null(strstr(found(redis, 1, false).text, "--redis-key-file"));
}

static void reply_topics_must_not_allow_the_workers_own_topics(void **state)
{
    (void)state;
    static const char *const some[] = {"--reply-topic=mill*"};
    static const char *const own[] = {"--reply-topic=millrace.results"};
    static const char *const good[] = {"--reply-topic=replies.*", "--reply-topic=millrace.replies"};
    assert_int_equal(found(some, 1, false).count, 1);
    assert_non_null(strstr(found(some, 1, false).text, "millrace.requests"));
    assert_non_null(strstr(found(own, 1, false).text, "millrace.results"));
    assert_int_equal(found(good, 2, false).count, 0);
}

static void memory_is_the_sum_of_what_a_worker_holds(void **state)
{
    (void)state;
    static const char *const flags[] = {"--queue-bytes=100MiB", "--prefetch-memory=50MiB"};
    struct mr_config *config = configured(flags, 2);
    struct mr_model_plan plan = {.weight_bytes = 1000 * MIB, .kv_pool_bytes = 500 * MIB};
    struct mr_machine machine = {.memory_bytes = 8000 * MIB, .memory_limit_bytes = 1700 * MIB};
    char text[400];
    assert_int_equal(mr_worker_rules_memory(config, &plan), (1000 + 500 + 100 + 50 + 228) * MIB);
    assert_false(mr_worker_rules_fits(config, &plan, &machine, text, sizeof text));
    assert_non_null(strstr(text, "1878 MiB at most (weights 1000, KV pool 500"));
    assert_non_null(strstr(text, "the limit of the control group is 1700 MiB: lower --kv-memory"));
    machine.memory_limit_bytes = 0;
    assert_true(mr_worker_rules_fits(config, &plan, &machine, text, sizeof text));
    assert_non_null(strstr(text, "the machine's memory is 8000 MiB"));
    machine.memory_bytes = 0; /* not known */
    assert_true(mr_worker_rules_fits(config, &plan, &machine, text, sizeof text));
    machine.memory_bytes = 300 * MIB;
    plan.device_bytes = 1600 * MIB; /* on a GPU only queues are in the machine's memory */
    assert_false(mr_worker_rules_fits(config, &plan, &machine, text, sizeof text));
    machine.memory_bytes = 400 * MIB;
    assert_true(mr_worker_rules_fits(config, &plan, &machine, text, sizeof text));
    assert_non_null(strstr(text, "378 MiB at most for queues; on the GPU weights of 1000 MiB"));
    plan.device_bytes = 1400 * MIB;
    assert_false(mr_worker_rules_fits(config, &plan, &machine, text, sizeof text));
    assert_non_null(strstr(text, "1400 MiB are free: the model is too large"));
    config->delivery = MR_DELIVERY_EXACTLY_ONCE; /* one more producer */
    assert_int_equal(mr_worker_rules_memory(config, &plan), (100 + 50 + 228 + 128) * MIB);
    mr_config_destroy(config);
}

static void the_rights_are_those_of_the_topics_and_the_group(void **state)
{
    (void)state;
    static const char *const flags[] = {"--reply-topic=answers.*", "--delivery=exactly-once",
                                        "--group=g"};
    struct mr_config *config = configured(flags, 3);
    struct findings findings = {.count = 0};
    mr_worker_rules_rights(config, find, &findings);
    assert_int_equal(findings.count, 8);
    assert_non_null(strstr(findings.text, "Read on topic millrace.requests\n"));
    assert_non_null(strstr(findings.text, "Write on topic millrace.tokens\n"));
    assert_non_null(strstr(findings.text, "Read, Write on topic millrace.results\n"));
    assert_non_null(strstr(findings.text, "Read on topic millrace.cancel\n"));
    assert_non_null(strstr(findings.text, "Write on topics that begin with answers.\n"));
    assert_non_null(strstr(findings.text, "Read on group g\n"));
    assert_non_null(strstr(findings.text, "transactional ids that begin with millrace-g-\n"));
    mr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_raise_no_warning_but_one_of_the_drain_timeout),
        cmocka_unit_test(each_risky_combination_is_named),
        cmocka_unit_test(reply_topics_must_not_allow_the_workers_own_topics),
        cmocka_unit_test(memory_is_the_sum_of_what_a_worker_holds),
        cmocka_unit_test(the_rights_are_those_of_the_topics_and_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
