#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/memory_redis.h"
#include "worker/remote_cache/redis_call.h"

struct rig {
    struct memory_redis redis;
    struct mr_redis_port port;
    struct mr_wake wake;
    struct mr_redis_calls *calls;
    unsigned done;
    enum mr_redis_outcome outcome;
    int64_t number;
};

static void on_done(void *context, enum mr_redis_outcome outcome,
                    const struct mr_redis_reply *reply)
{
    struct rig *rig = context;
    rig->done++;
    rig->outcome = outcome;
    rig->number = outcome == MR_REDIS_DONE ? mr_redis_reply_integer(reply) : -1;
}

static void rig_open(struct rig *rig)
{
    *rig = (struct rig){0};
    rig->port = memory_port(&rig->redis);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_redis_calls_create(&rig->calls, &rig->wake, NULL), MR_OK);
}

static void rig_close(struct rig *rig)
{
    assert_int_equal(mr_redis_calls_in_flight(rig->calls), 0);
    mr_redis_calls_destroy(rig->calls);
    rig->port.destroy(rig->port.context);
    mr_wake_close(&rig->wake);
    memory_redis_end(&rig->redis);
}

static bool post(struct rig *rig, const char *word)
{
    const char *words[] = {word, "key"};
    const size_t lengths[] = {strlen(word), 3};
    struct mr_redis_call call = {.words = words,
                                 .lengths = lengths,
                                 .count = 2,
                                 .timeout_ns = 100,
                                 .done = on_done,
                                 .context = rig};
    return mr_redis_calls_post(rig->calls, &call, 1);
}

/* Sends the posted commands and ends those that have a reply. */
static void step(struct rig *rig, uint64_t now_ns)
{
    mr_redis_calls_send(rig->calls, &rig->port, now_ns);
    rig->port.step(rig->port.context, now_ns);
    for (struct mr_redis_command *command; (command = rig->port.take(rig->port.context)) != NULL;)
        assert_true(mr_redis_calls_finish(rig->calls, &rig->port, command));
}

static void a_call_is_answered_once(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    step(&rig, 1); /* connects */
    assert_true(post(&rig, "STRLEN"));
    assert_true(mr_wake_wait(&rig.wake, 0));
    step(&rig, 2);
    assert_true(rig.done == 1 && rig.outcome == MR_REDIS_DONE && rig.number == 0);
    struct mr_redis_command other = {0};
    assert_false(mr_redis_calls_finish(rig.calls, &rig.port, &other));
    rig_close(&rig);
}

static void a_call_that_cannot_be_sent_is_lost(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    assert_true(post(&rig, "STRLEN"));
    step(&rig, 1);
    assert_true(rig.done == 1 && rig.outcome == MR_REDIS_LOST);
    mr_redis_calls_close(rig.calls);
    assert_false(post(&rig, "STRLEN"));
    rig_close(&rig);
}

static void a_call_times_out(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    step(&rig, 1);
    rig.redis.silent = true;
    assert_true(post(&rig, "STRLEN"));
    step(&rig, 2);
    step(&rig, 101);
    assert_int_equal(rig.done, 0);
    step(&rig, 102);
    assert_true(rig.done == 1 && rig.outcome == MR_REDIS_TIMEOUT);
    rig_close(&rig);
}

static void calls_beyond_those_in_flight_wait_for_replies(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    step(&rig, 1);
    for (unsigned i = 0; i < 10000; i++)
        assert_true(post(&rig, "STRLEN"));
    for (uint64_t now_ns = 2; rig.done < 10000 && now_ns < 20; now_ns++) {
        step(&rig, now_ns);
        assert_int_equal(rig.outcome, MR_REDIS_DONE);
        assert_in_range(mr_redis_calls_in_flight(rig.calls), 0, 2048);
    }
    assert_int_equal(rig.done, 10000);
    rig_close(&rig);
}

static void calls_that_wait_too_long_time_out(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    rig.redis.latency_ns = 99;
    step(&rig, 1);
    for (unsigned i = 0; i < 3000; i++)
        assert_true(post(&rig, "STRLEN"));
    step(&rig, 2);
    step(&rig, 101); /* 2,048 are answered */
    assert_true(rig.done == 2048 && rig.outcome == MR_REDIS_DONE);
    step(&rig, 102);
    assert_true(rig.done == 3000 && rig.outcome == MR_REDIS_TIMEOUT);
    rig_close(&rig);
}

static void a_key_of_another_type_is_deleted_and_the_call_made_again(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    size_t at = memory_find(&rig.redis, (struct memory_text){"key", 3});
    rig.redis.values[at].bytes = malloc(1);
    rig.redis.values[at].list = true;
    step(&rig, 1);
    assert_true(post(&rig, "STRLEN"));
    for (uint64_t now_ns = 2; rig.done == 0 && now_ns < 6; now_ns++)
        step(&rig, now_ns);
    assert_true(rig.done == 1 && rig.outcome == MR_REDIS_DONE && rig.number == 0);
    assert_null(rig.redis.values[at].bytes);
    assert_int_equal(rig.redis.commands, 3);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_answered_once),
        cmocka_unit_test(a_call_that_cannot_be_sent_is_lost),
        cmocka_unit_test(a_call_times_out),
        cmocka_unit_test(calls_beyond_those_in_flight_wait_for_replies),
        cmocka_unit_test(calls_that_wait_too_long_time_out),
        cmocka_unit_test(a_key_of_another_type_is_deleted_and_the_call_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
