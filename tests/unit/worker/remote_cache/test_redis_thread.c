#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/fake_redis.h"
#include "tests/unit/worker/memory_redis.h"
#include "worker/remote_cache/redis_thread.h"

#define MS ((uint64_t)1000000)

struct result {
    atomic_uint count;
    enum mr_redis_outcome outcome;
    int64_t number;
};

static void on_done(void *context, enum mr_redis_outcome outcome,
                    const struct mr_redis_reply *reply)
{
    struct result *result = context;
    result->outcome = outcome;
    result->number = outcome == MR_REDIS_DONE ? mr_redis_reply_integer(reply) : -1;
    atomic_fetch_add(&result->count, 1);
}

static void on_notify(void *context)
{
    (void)context;
}

struct rig {
    struct fake_redis *redis;
    struct mr_remote_queue *queue;
    struct mr_redis_thread *thread;
};

/* Starts a thread with a connection to the fake server, and waits until it is connected. */
static void start_thread(struct rig *rig, struct mr_redis_thread_options *options)
{
    struct mr_redis_conn_options conn = {
        .where = {.host = "127.0.0.1", .port = (uint16_t)rig->redis->port},
        .connect_timeout_ns = 1000 * MS};
    char reason[200];
    assert_int_equal(mr_redis_port_open(&options->port, &conn, 1, NULL), MR_OK);
    assert_int_equal(mr_redis_thread_create(&rig->thread, options, NULL), MR_OK);
    assert_int_equal(mr_redis_thread_start(rig->thread, "test", NULL), MR_OK);
    for (int i = 0; i < 5000; i++) {
        if (mr_redis_thread_stats(rig->thread, reason, sizeof reason).bytes.received_bytes) break;
        usleep(1000);
    }
}

static struct rig rig_open(void)
{
    struct rig rig = {.redis = fake_redis_start(0)};
    struct mr_remote_queue_options queue = {.thread_count = 2, .present_ns = 1};
    assert_int_equal(mr_remote_queue_create(&rig.queue, &queue, NULL), MR_OK);
    struct mr_redis_thread_options options = {.queue = rig.queue, .notify = on_notify};
    start_thread(&rig, &options);
    return rig;
}

static bool call(struct rig *rig, const char *word, struct result *result, uint64_t timeout_ns)
{
    const char *words[] = {word, "key"};
    const size_t lengths[] = {strlen(word), 3};
    struct mr_redis_call posted = {.words = words,
                                   .lengths = lengths,
                                   .count = 2,
                                   .timeout_ns = timeout_ns,
                                   .done = on_done,
                                   .context = result};
    return mr_redis_thread_call(rig->thread, &posted, 1);
}

static void rig_close(struct rig *rig)
{
    mr_redis_thread_stop(rig->thread, 10000);
    struct result late = {0};
    assert_false(call(rig, "INCR", &late, 1));
    mr_redis_thread_destroy(rig->thread);
    mr_remote_queue_destroy(rig->queue);
    fake_redis_stop(rig->redis);
}

static void wait_for(struct result *result, unsigned count)
{
    for (int i = 0; i < 10000 && atomic_load(&result->count) < count; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&result->count), count);
}

static void calls_are_answered_in_order(void **state)
{
    struct rig rig = rig_open();
    struct result result = {0};
    (void)state;
    for (unsigned i = 1; i <= 100; i++)
        assert_true(call(&rig, "INCR", &result, 5000 * MS));
    wait_for(&result, 100);
    assert_int_equal(result.number, 100);
    rig_close(&rig);
}

static void a_refused_call_is_answered(void **state)
{
    struct rig rig = rig_open();
    struct result result = {0};
    (void)state;
    assert_true(call(&rig, "NONSENSE", &result, 5000 * MS));
    wait_for(&result, 1);
    assert_int_equal(result.outcome, MR_REDIS_REFUSED);
    rig_close(&rig);
}

static void calls_to_a_silent_server_end_in_time(void **state)
{
    struct rig rig = rig_open();
    struct result result = {0};
    (void)state;
    atomic_store(&rig.redis->silent, true);
    assert_true(call(&rig, "INCR", &result, 20 * MS));
    wait_for(&result, 1);
    assert_int_equal(result.outcome, MR_REDIS_TIMEOUT);
    assert_true(call(&rig, "INCR", &result, 20 * MS));
    wait_for(&result, 2);
    assert_int_equal(result.outcome, MR_REDIS_LOST);
    rig_close(&rig);
}

static void every_call_is_answered_when_the_thread_stops(void **state)
{
    struct rig rig = rig_open();
    struct result result = {0};
    (void)state;
    atomic_store(&rig.redis->silent, true);
    for (int i = 0; i < 10; i++)
        assert_true(call(&rig, "INCR", &result, 60000 * MS));
    rig_close(&rig);
    assert_int_equal(atomic_load(&result.count), 10);
}

static void a_thread_without_a_queue_runs_calls(void **state)
{
    struct rig rig = {.redis = fake_redis_start(0)};
    struct mr_redis_thread_options options = {0};
    struct result result = {0};
    (void)state;
    start_thread(&rig, &options);
    for (unsigned i = 1; i <= 10; i++)
        assert_true(call(&rig, "INCR", &result, 5000 * MS));
    wait_for(&result, 10);
    assert_int_equal(result.number, 10);
    rig_close(&rig);
}

/* ---- two workers and a Redis in memory, in one thread under virtual time ---- */

#define LENGTH ((size_t)5000)

/* A queue with one thread for lookups and one for values. */
struct worker {
    struct mr_remote_queue *queue;
    struct mr_redis_thread *threads[2];
    uint64_t next_ns[2]; /* when to call each step */
    unsigned notified;
};

static void on_answers(void *context)
{
    ++*(unsigned *)context;
}

/* cancel: the port's function for a cancelled command; NULL: that of the Redis in memory. */
static void worker_open_with(struct worker *worker, struct memory_redis *redis,
                             void (*cancel)(void *context, struct mr_redis_command *command,
                                            uint64_t now_ns))
{
    struct mr_remote_queue_options queue = {.thread_count = 2,
                                            .lookup_timeout_ns = 50 * MS,
                                            .transfer_timeout_ns = 1000 * MS,
                                            .store_bytes_max = 1 << 20,
                                            .present_ns = 1000 * MS};
    *worker = (struct worker){0};
    assert_int_equal(mr_remote_queue_create(&worker->queue, &queue, NULL), MR_OK);
    for (uint32_t i = 0; i < 2; i++) {
        struct mr_redis_thread_options options = {.queue = worker->queue,
                                                  .index = i,
                                                  .port = memory_port(redis),
                                                  .ttl_s = 60,
                                                  .notify = on_answers,
                                                  .context = &worker->notified};
        if (cancel) options.port.cancel = cancel;
        assert_int_equal(mr_redis_thread_create(&worker->threads[i], &options, NULL), MR_OK);
    }
}

static void worker_open(struct worker *worker, struct memory_redis *redis)
{
    worker_open_with(worker, redis, NULL);
}

static void worker_close(struct worker *worker)
{
    for (uint32_t i = 0; i < 2; i++)
        mr_redis_thread_stop(worker->threads[i], 10000);
    mr_remote_queue_expire(worker->queue, UINT64_MAX);
    struct mr_remote_answer answer;
    while (mr_remote_queue_poll(worker->queue, &answer)) {
    }
    mr_remote_queue_check(worker->queue);
    for (uint32_t i = 0; i < 2; i++)
        mr_redis_thread_destroy(worker->threads[i]);
    mr_remote_queue_destroy(worker->queue);
}

/* Advances the time to `until_ns`, stepping each thread at its wake-up times, and whenever the
 * other one wakes it. */
static void run_until(struct worker *worker, uint64_t *now_ns, uint64_t until_ns)
{
    while (*now_ns <= until_ns) {
        uint64_t next_ns = UINT64_MAX;
        for (int round = 0; round < 8; round++) { /* a doorbell would wake the other thread */
            next_ns = UINT64_MAX;
            for (uint32_t i = 0; i < 2; i++) {
                uint64_t step_ns = mr_redis_thread_step(worker->threads[i], *now_ns);
                if (step_ns < next_ns) next_ns = step_ns;
            }
        }
        *now_ns = next_ns > *now_ns ? next_ns : *now_ns + 1;
    }
    *now_ns = until_ns;
}

static struct mr_remote_operation request_of(struct mr_remote_value *value, unsigned char *bytes)
{
    *value = (struct mr_remote_value){
        .key = {1, 2, 3}, .token_count = 256, .bytes = bytes, .length = LENGTH};
    return (struct mr_remote_operation){.id = 7, .values = value, .count = 1};
}

/* The final answer, which must be there. */
static struct mr_remote_answer final_answer(struct worker *worker)
{
    struct mr_remote_answer answer = {0};
    while (!answer.final)
        assert_true(mr_remote_queue_poll(worker->queue, &answer));
    return answer;
}

static void one_worker_loads_what_another_stored(void **state)
{
    struct memory_redis redis = {.latency_ns = MS};
    struct worker one, two;
    struct mr_remote_value value;
    unsigned char stored[LENGTH], loaded[LENGTH] = {0};
    uint64_t now_ns = MS;
    (void)state;
    memset(stored, 0x5a, sizeof stored);
    worker_open(&one, &redis);
    worker_open(&two, &redis);
    struct mr_remote_operation posted = request_of(&value, stored);
    run_until(&one, &now_ns, now_ns + 20 * MS);
    assert_true(mr_remote_queue_rates(one.queue).up);
    assert_true(mr_remote_queue_post(one.queue, MR_REMOTE_STORE, &posted, now_ns));
    run_until(&one, &now_ns, now_ns + 10 * MS);
    assert_int_equal(final_answer(&one).count, 1);
    assert_true(one.notified > 0);

    run_until(&two, &now_ns, now_ns + 20 * MS);
    assert_true(mr_remote_queue_post(two.queue, MR_REMOTE_LOOKUP, &posted, now_ns));
    run_until(&two, &now_ns, now_ns + 5 * MS);
    assert_int_equal(final_answer(&two).count, 1);
    assert_int_equal(mr_remote_queue_rates(two.queue).round_trip_ns, MS);
    value.bytes = loaded;
    assert_true(mr_remote_queue_post(two.queue, MR_REMOTE_LOAD, &posted, now_ns));
    run_until(&two, &now_ns, now_ns + 5 * MS);
    assert_int_equal(final_answer(&two).count, 1);
    assert_memory_equal(loaded, stored, LENGTH);
    worker_close(&one);
    worker_close(&two);
    memory_redis_end(&redis);
}

static void a_lookup_without_reply_times_out_when_the_time_comes(void **state)
{
    struct memory_redis redis = {.latency_ns = MS};
    struct worker worker;
    struct mr_remote_value value;
    struct mr_remote_answer answer;
    uint64_t now_ns = MS;
    (void)state;
    worker_open(&worker, &redis);
    struct mr_remote_operation posted = request_of(&value, NULL);
    run_until(&worker, &now_ns, now_ns + 20 * MS);
    redis.silent = true;
    assert_true(mr_remote_queue_post(worker.queue, MR_REMOTE_LOOKUP, &posted, now_ns));
    run_until(&worker, &now_ns, now_ns + 49 * MS);
    assert_false(mr_remote_queue_poll(worker.queue, &answer));
    run_until(&worker, &now_ns, now_ns + 2 * MS);
    assert_int_equal(final_answer(&worker).count, 0);
    assert_false(mr_remote_queue_rates(worker.queue).up);
    assert_false(mr_remote_queue_post(worker.queue, MR_REMOTE_LOOKUP, &posted, now_ns));
    redis.silent = false; /* and it connects again by itself */
    run_until(&worker, &now_ns, now_ns + 100 * MS);
    assert_true(mr_remote_queue_rates(worker.queue).up);
    worker_close(&worker);
    memory_redis_end(&redis);
}

static void cancel_too_late(void *context, struct mr_redis_command *command, uint64_t now_ns)
{
    (void)context, (void)command, (void)now_ns;
}

/* The last bytes of a value arrive just before its load is cancelled. The engine owns the memory
 * again, so the value is neither verified, which would decrypt it in place, nor deleted. */
static void a_released_value_is_not_verified(void **state)
{
    struct memory_redis redis = {.latency_ns = MS};
    struct worker worker;
    struct mr_remote_value value;
    unsigned char bytes[LENGTH] = {1};
    uint64_t now_ns = MS;
    (void)state;
    worker_open_with(&worker, &redis, cancel_too_late);
    struct mr_remote_operation posted = request_of(&value, bytes);
    run_until(&worker, &now_ns, now_ns + 20 * MS);
    assert_true(mr_remote_queue_post(worker.queue, MR_REMOTE_STORE, &posted, now_ns));
    run_until(&worker, &now_ns, now_ns + 10 * MS);
    assert_int_equal(final_answer(&worker).count, 1);
    redis.values[0].bytes[MR_FRAME_BYTES] ^= 1; /* damaged, so that verifying it would delete it */
    assert_true(mr_remote_queue_post(worker.queue, MR_REMOTE_LOAD, &posted, now_ns));
    mr_redis_thread_step(worker.threads[1], now_ns);
    mr_remote_queue_cancel(worker.queue, posted.id);
    run_until(&worker, &now_ns, now_ns + 10 * MS);
    assert_int_equal(final_answer(&worker).count, 0);
    assert_int_equal(mr_remote_queue_stats(worker.queue).damaged[MR_VERDICT_DAMAGED], 0);
    assert_non_null(redis.values[0].bytes);
    worker_close(&worker);
    memory_redis_end(&redis);
}

static uint64_t connects_of(struct worker *worker, uint32_t thread)
{
    char reason[200];
    return mr_redis_thread_stats(worker->threads[thread], reason, sizeof reason).connects;
}

/* Posts a store, and waits for it; returns how many values Redis has now. */
static uint32_t store_item(struct worker *worker, struct mr_remote_operation *posted,
                           uint64_t *now_ns)
{
    assert_true(mr_remote_queue_post(worker->queue, MR_REMOTE_STORE, posted, *now_ns));
    run_until(worker, now_ns, *now_ns + 10 * MS);
    return final_answer(worker).count;
}

/* The key of a slice has a list: a load deletes it, and a store replaces it. */
static void a_key_of_another_type_is_replaced(void **state)
{
    struct memory_redis redis = {.latency_ns = MS};
    struct worker writer, other;
    struct mr_remote_value value;
    unsigned char bytes[LENGTH] = {1};
    uint64_t now_ns = MS;
    (void)state;
    worker_open(&writer, &redis);
    worker_open(&other, &redis);
    struct mr_remote_operation posted = request_of(&value, bytes);
    run_until(&writer, &now_ns, now_ns + 20 * MS);
    assert_int_equal(store_item(&writer, &posted, &now_ns), 1);
    assert_int_equal(redis.count, 1);
    redis.values[0].list = true;
    run_until(&other, &now_ns, now_ns + 20 * MS);
    assert_int_equal(store_item(&other, &posted, &now_ns), 1);
    assert_false(redis.values[0].list);
    redis.values[0].list = true;
    assert_true(mr_remote_queue_post(other.queue, MR_REMOTE_LOAD, &posted, now_ns));
    run_until(&other, &now_ns, now_ns + 10 * MS);
    assert_int_equal(final_answer(&other).count, 0);
    assert_int_equal(mr_remote_queue_stats(other.queue).damaged[MR_VERDICT_MISPLACED], 1);
    assert_null(redis.values[0].bytes);
    worker_close(&writer);
    worker_close(&other);
    memory_redis_end(&redis);
}

/* After a failover the connections may stay open to a server that has become a replica. Every
 * thread reconnects, which resolves the server's name again, but not after every refusal. */
static void a_replica_is_left(void **state)
{
    struct memory_redis redis = {.latency_ns = MS};
    struct worker worker;
    struct mr_remote_value value;
    unsigned char bytes[LENGTH] = {1};
    uint64_t now_ns = MS;
    (void)state;
    worker_open(&worker, &redis);
    struct mr_remote_operation posted = request_of(&value, bytes);
    run_until(&worker, &now_ns, now_ns + 20 * MS);
    redis.read_only = true;
    assert_int_equal(store_item(&worker, &posted, &now_ns), 0);
    assert_true(mr_remote_queue_stats(worker.queue).refusing);
    run_until(&worker, &now_ns, now_ns + 100 * MS);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(connects_of(&worker, i), 2);
    for (uint32_t i = 0; i < 10; i++) { /* stores pause for two seconds after a refusal */
        run_until(&worker, &now_ns, now_ns + 2000 * MS);
        assert_int_equal(store_item(&worker, &posted, &now_ns), 0);
    }
    assert_in_range(connects_of(&worker, 0), 4, 6); /* in 20 seconds */
    assert_in_range(connects_of(&worker, 1), 4, 6);
    redis.read_only = false; /* the next connection leads to the new master */
    run_until(&worker, &now_ns, now_ns + 2000 * MS);
    assert_int_equal(store_item(&worker, &posted, &now_ns), 1);
    assert_false(mr_remote_queue_stats(worker.queue).refusing);
    worker_close(&worker);
    memory_redis_end(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_in_order),
        cmocka_unit_test(a_refused_call_is_answered),
        cmocka_unit_test(calls_to_a_silent_server_end_in_time),
        cmocka_unit_test(every_call_is_answered_when_the_thread_stops),
        cmocka_unit_test(a_thread_without_a_queue_runs_calls),
        cmocka_unit_test(one_worker_loads_what_another_stored),
        cmocka_unit_test(a_released_value_is_not_verified),
        cmocka_unit_test(a_key_of_another_type_is_replaced),
        cmocka_unit_test(a_replica_is_left),
        cmocka_unit_test(a_lookup_without_reply_times_out_when_the_time_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
