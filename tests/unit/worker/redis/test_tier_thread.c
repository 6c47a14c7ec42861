#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/fake_redis.h"
#include "worker/redis/tier_thread.h"

#define MS ((uint64_t)1000000)

struct told {
    atomic_uint count;
    enum mr_redis_outcome outcome;
    int64_t number;
};

static void on_done(void *context, enum mr_redis_outcome outcome,
                    const struct mr_redis_reply *reply)
{
    struct told *told = context;
    told->outcome = outcome;
    told->number = outcome == MR_REDIS_DONE ? mr_redis_reply_integer(reply) : -1;
    atomic_fetch_add(&told->count, 1);
}

static void on_notify(void *context)
{
    (void)context;
}

struct rig {
    struct fake_redis *redis;
    struct mr_tier_queue *queue;
    struct mr_tier_thread *lane;
};

static struct rig rig_open(void)
{
    struct rig rig = {.redis = fake_redis_start(0)};
    struct mr_tier_queue_options queue = {.lane_count = 2, .present_ns = 1};
    struct mr_tier_thread_options lane = {
        .conn = {.where = {.host = "127.0.0.1", .port = (uint16_t)rig.redis->port},
                 .connect_timeout_ns = 1000 * MS},
        .notify = on_notify};
    char reason[200];
    assert_int_equal(mr_tier_queue_create(&rig.queue, &queue, NULL), MR_OK);
    lane.queue = rig.queue;
    assert_int_equal(mr_tier_thread_create(&rig.lane, &lane, NULL), MR_OK);
    for (int i = 0;
         i < 5000 && !mr_tier_thread_stats(rig.lane, reason, sizeof reason).bytes.read.received_bytes;
         i++)
        usleep(1000);
    return rig;
}

static bool call(struct rig *rig, const char *word, struct told *told, uint64_t timeout_ns)
{
    const char *words[] = {word, "key"};
    const size_t lengths[] = {strlen(word), 3};
    struct mr_tier_call request = {.words = words,
                                   .lengths = lengths,
                                   .count = 2,
                                   .timeout_ns = timeout_ns,
                                   .done = on_done,
                                   .context = told};
    return mr_tier_thread_call(rig->lane, &request, 1);
}

static void rig_close(struct rig *rig)
{
    mr_tier_thread_stop(rig->lane);
    struct told late = {0};
    assert_false(call(rig, "INCR", &late, 1));
    mr_tier_thread_destroy(rig->lane);
    mr_tier_queue_destroy(rig->queue);
    fake_redis_stop(rig->redis);
}

static void wait_for(struct told *told, unsigned count)
{
    for (int i = 0; i < 10000 && atomic_load(&told->count) < count; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&told->count), count);
}

static void calls_are_answered_in_order(void **state)
{
    struct rig rig = rig_open();
    struct told told = {0};
    (void)state;
    for (unsigned i = 1; i <= 100; i++)
        assert_true(call(&rig, "INCR", &told, 5000 * MS));
    wait_for(&told, 100);
    assert_int_equal(told.number, 100);
    rig_close(&rig);
}

static void a_refused_call_is_told(void **state)
{
    struct rig rig = rig_open();
    struct told told = {0};
    (void)state;
    assert_true(call(&rig, "NONSENSE", &told, 5000 * MS));
    wait_for(&told, 1);
    assert_int_equal(told.outcome, MR_REDIS_REFUSED);
    rig_close(&rig);
}

static void calls_to_a_silent_server_end_in_time(void **state)
{
    struct rig rig = rig_open();
    struct told told = {0};
    (void)state;
    atomic_store(&rig.redis->silent, true);
    usleep(10000);
    assert_true(call(&rig, "INCR", &told, 20 * MS));
    wait_for(&told, 1);
    assert_int_equal(told.outcome, MR_REDIS_TIMEOUT);
    assert_true(call(&rig, "INCR", &told, 20 * MS));
    wait_for(&told, 2);
    assert_int_equal(told.outcome, MR_REDIS_LOST);
    rig_close(&rig);
}

static void every_call_is_told_when_the_lane_ends(void **state)
{
    struct rig rig = rig_open();
    struct told told = {0};
    (void)state;
    atomic_store(&rig.redis->silent, true);
    usleep(10000);
    for (int i = 0; i < 10; i++)
        assert_true(call(&rig, "INCR", &told, 60000 * MS));
    rig_close(&rig);
    assert_int_equal(atomic_load(&told.count), 10);
}

static void a_lane_without_a_queue_runs_calls(void **state)
{
    struct rig rig = {.redis = fake_redis_start(0)};
    struct told told = {0};
    struct mr_tier_thread_options lane = {
        .conn = {.where = {.host = "127.0.0.1", .port = (uint16_t)rig.redis->port},
                 .connect_timeout_ns = 1000 * MS}};
    char reason[200];
    (void)state;
    assert_int_equal(mr_tier_thread_create(&rig.lane, &lane, NULL), MR_OK);
    for (int i = 0;
         i < 5000 && !mr_tier_thread_stats(rig.lane, reason, sizeof reason).bytes.read.received_bytes;
         i++)
        usleep(1000);
    for (unsigned i = 1; i <= 10; i++)
        assert_true(call(&rig, "INCR", &told, 5000 * MS));
    wait_for(&told, 10);
    assert_int_equal(told.number, 10);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_in_order),
        cmocka_unit_test(a_refused_call_is_told),
        cmocka_unit_test(calls_to_a_silent_server_end_in_time),
        cmocka_unit_test(every_call_is_told_when_the_lane_ends),
        cmocka_unit_test(a_lane_without_a_queue_runs_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
