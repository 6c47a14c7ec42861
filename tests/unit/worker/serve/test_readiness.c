#include "worker/serve/readiness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND ((uint64_t)1000000000)

/* A worker that is ready. */
static struct mr_readiness good(void)
{
    return (struct mr_readiness){.loaded = true,
                                 .joined = true,
                                 .partitions = 4,
                                 .heard_ns = 99 * SECOND,
                                 .now_ns = 100 * SECOND,
                                 .session_timeout_ns = 45 * SECOND};
}

/* The object of one condition in the page's list. */
#define CHECK(name, ok, required, text)                                                            \
    "{\"name\":\"" name "\",\"ok\":" ok ",\"required\":" required ",\"text\":\"" text "\"}"

static void expect_page(struct mr_readiness readiness, const char *expected)
{
    char text[MR_READINESS_BYTES];
    bool ready = mr_readiness_write(&readiness, text, NULL);
    assert_string_equal(text, expected);
    assert_int_equal(ready, strstr(expected, "\"ready\":true") != NULL);
}

static void every_condition_is_in_the_list(void **state)
{
    (void)state;
    struct mr_readiness readiness = good();
    expect_page(
        readiness,
        "{\"checks\":[" CHECK("model", "true", "true", "loaded") "," CHECK(
            "group", "true", "true",
            "joined, 4 partitions") "," CHECK("broker", "true", "true",
                                              "answered 1.0 s ago") "," CHECK("writes", "true",
                                                                              "true",
                                                                              "accepted") "],"
                                                                                          "\"ready"
                                                                                          "\":"
                                                                                          "true,"
                                                                                          "\"reason"
                                                                                          "\":"
                                                                                          "\"\"}"
                                                                                          "\n");
    readiness.redis = true; /* away, which does not matter */
    readiness.partitions = 0;
    expect_page(
        readiness,
        "{\"checks\":[" CHECK("model", "true", "true", "loaded") "," CHECK(
            "group", "true", "true",
            "joined without a partition: there are fewer partitions than "
            "workers") "," CHECK("broker", "true", "true",
                                 "answered 1.0 s ago") "," CHECK("writes", "true", "true",
                                                                 "accepted") "," CHECK("redis",
                                                                                       "false",
                                                                                       "false",
                                                                                       "down") "],"
                                                                                               "\"r"
                                                                                               "ead"
                                                                                               "y\""
                                                                                               ":tr"
                                                                                               "ue,"
                                                                                               "\"r"
                                                                                               "eas"
                                                                                               "on"
                                                                                               "\":"
                                                                                               "\""
                                                                                               "\"}"
                                                                                               "\n");
    expect_page(
        (struct mr_readiness){.redis = true, .redis_up = true},
        "{\"checks\":[" CHECK("model", "false", "true", "loading") "," CHECK(
            "redis", "true", "false", "up") "],\"ready\":false,\"reason\":\"model: loading\"}\n");
    expect_page((struct mr_readiness){.redis = true, .redis_up = true, .redis_refuses = true},
                "{\"checks\":[" CHECK("model", "false", "true", "loading") "," CHECK(
                    "redis", "false", "false",
                    "up, but refuses writes") "],\"ready\":false,\"reason\":\"model: loading\"}\n");
}

static void expect_reason(const struct mr_readiness *readiness, const char *reason)
{
    char text[MR_READINESS_BYTES], member[500];
    assert_false(mr_readiness_write(readiness, text, NULL));
    snprintf(member, sizeof member, "\"ready\":false,\"reason\":\"%s", reason);
    assert_non_null(strstr(text, member));
}

static void the_first_condition_that_does_not_hold_is_the_reason(void **state)
{
    (void)state;
    char text[MR_READINESS_BYTES];
    struct mr_readiness readiness = good();
    readiness.refused_topic = "m.tokens";
    expect_reason(&readiness, "writes: topic m.tokens refuses");
    readiness.heard_ns = 0;
    expect_reason(&readiness, "broker: has not answered yet\"");
    readiness.joined = false;
    expect_reason(&readiness, "group: not joined\"");
    readiness.draining = true;
    expect_reason(&readiness, "worker: draining\"");
    readiness.failure = "the \"producer\" was fenced";
    expect_reason(&readiness, "worker: the \\\"producer\\\" was fenced\"");
    assert_false(mr_readiness_write(&readiness, text, NULL));
    assert_non_null(strstr(text, CHECK("broker", "false", "true", "has not answered yet")));
}

static void a_broker_is_away_after_10_seconds_and_a_fifth_of_the_session(void **state)
{
    (void)state;
    char text[MR_READINESS_BYTES];
    struct mr_readiness readiness = good();
    readiness.now_ns = readiness.heard_ns + 19 * SECOND;
    assert_true(mr_readiness_write(&readiness, text, NULL));
    readiness.now_ns += 1;
    expect_reason(&readiness, "broker: answered 19.0 s ago\"");
}

static void a_long_topic_name_fits(void **state)
{
    (void)state;
    char name[400], text[MR_READINESS_BYTES];
    struct mr_readiness readiness = good();
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    readiness.refused_topic = name;
    readiness.redis = true;
    assert_false(mr_readiness_write(&readiness, text, NULL));
    assert_non_null(strstr(text, "refuses records of this worker\"}"));
    assert_int_equal(text[strlen(text) - 2], '}');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_condition_is_in_the_list),
        cmocka_unit_test(the_first_condition_that_does_not_hold_is_the_reason),
        cmocka_unit_test(a_broker_is_away_after_10_seconds_and_a_fifth_of_the_session),
        cmocka_unit_test(a_long_topic_name_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
