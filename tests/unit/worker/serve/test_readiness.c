#include "worker/serve/readiness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static void expect_page(struct mr_readiness readiness, const char *expected)
{
    char text[MR_READINESS_BYTES];
    bool ready = mr_readiness_write(&readiness, text);
    assert_string_equal(text, expected);
    assert_int_equal(ready, strncmp(expected, "ready\n", 6) == 0);
}

static void every_condition_has_its_line(void **state)
{
    (void)state;
    struct mr_readiness readiness = good();
    expect_page(readiness, "ready\nmodel: loaded\ngroup: joined, 4 partitions\n"
                           "broker: heard 1.0 s ago\nwrites: accepted\n");
    readiness.redis = true; /* away, which does not matter */
    readiness.partitions = 0;
    expect_page(readiness, "ready\nmodel: loaded\n"
                           "group: joined, no partition: there are fewer than workers\n"
                           "broker: heard 1.0 s ago\nwrites: accepted\n"
                           "redis: down (not required)\n");
    expect_page((struct mr_readiness){.redis = true, .redis_up = true},
                "not ready: model: loading\nmodel: loading\nredis: up\n");
}

static void the_first_condition_that_does_not_hold_is_the_reason(void **state)
{
    (void)state;
    char text[MR_READINESS_BYTES];
    struct mr_readiness readiness = good();
    readiness.refused_topic = "m.tokens";
    assert_false(mr_readiness_write(&readiness, text));
    assert_memory_equal(text, "not ready: writes: topic m.tokens refuses", 41);
    readiness.heard_ns = 0;
    assert_false(mr_readiness_write(&readiness, text));
    assert_memory_equal(text, "not ready: broker: not heard yet\n", 33);
    readiness.joined = false;
    assert_false(mr_readiness_write(&readiness, text));
    assert_memory_equal(text, "not ready: group: not joined\n", 29);
    readiness.draining = true;
    assert_false(mr_readiness_write(&readiness, text));
    assert_memory_equal(text, "not ready: worker: draining\n", 28);
    assert_non_null(strstr(text, "\nbroker: not heard yet\n"));
}

static void a_broker_is_away_after_10_seconds_and_a_fifth_of_the_session(void **state)
{
    (void)state;
    char text[MR_READINESS_BYTES];
    struct mr_readiness readiness = good();
    readiness.now_ns = readiness.heard_ns + 19 * SECOND;
    assert_true(mr_readiness_write(&readiness, text));
    readiness.now_ns += 1;
    assert_false(mr_readiness_write(&readiness, text));
    assert_memory_equal(text, "not ready: broker: heard 19.0 s ago\n", 36);
}

static void a_long_topic_name_fits(void **state)
{
    (void)state;
    char name[400], text[MR_READINESS_BYTES];
    struct mr_readiness readiness = good();
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    readiness.refused_topic = name;
    assert_false(mr_readiness_write(&readiness, text));
    assert_non_null(strstr(text, "refuses records of this worker\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_condition_has_its_line),
        cmocka_unit_test(the_first_condition_that_does_not_hold_is_the_reason),
        cmocka_unit_test(a_broker_is_away_after_10_seconds_and_a_fifth_of_the_session),
        cmocka_unit_test(a_long_topic_name_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
