/* The engine runs on this thread, producers on others, and one more thread cancels requests and
 * reads statistics. Every accepted request must have one result. Rounds repeat for a second, with
 * random pauses around every lock (tests/fakes/lock_delays.h). Also runs under ThreadSanitizer. */
#include "tests/fakes/engine_rig.h"
#include "tests/fakes/lock_delays.h"

#include <pthread.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define PRODUCERS  2u
#define CANCELLERS 2u
#define EACH       30u

struct shared {
    struct engine_rig rig;
    atomic_uint accepted, producing;
    atomic_bool done;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool woken; /* under mutex */
};

static void wake(void *context)
{
    struct shared *shared = context;
    pthread_mutex_lock(&shared->mutex);
    shared->woken = true;
    pthread_cond_signal(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

static void wait_for_wake(struct shared *shared)
{
    pthread_mutex_lock(&shared->mutex);
    while (!shared->woken)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    shared->woken = false;
    pthread_mutex_unlock(&shared->mutex);
}

struct producer {
    struct shared *shared;
    uint32_t first;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct engine_rig *rig = &producer->shared->rig;
    for (uint32_t i = 0; i < EACH; i++) {
        char id[16];
        uint32_t ticket = producer->first + i, tokens[300], count = 20 + 37 * (i % 7);
        rig_tokens(rig, i % 5, tokens, count);
        snprintf(id, sizeof id, "%u", ticket);
        struct mr_submission submission = {.request = mr_fake_request(id, tokens, count),
                                           .ticket = ticket,
                                           .tenant = i % 2 ? "red" : "blue",
                                           .arrival_ns = 1000 + i};
        if (rig_submit_as(rig, submission) == MR_OK)
            atomic_fetch_add(&producer->shared->accepted, 1);
    }
    atomic_fetch_sub(&producer->shared->producing, 1);
    wake(producer->shared);
    return NULL;
}

static void *cancel(void *argument)
{
    struct shared *shared = argument;
    for (uint32_t ticket = 0; !atomic_load(&shared->done); ticket = (ticket + 7) % 60) {
        char id[16];
        snprintf(id, sizeof id, "%u", ticket);
        mr_engine_cancel(shared->rig.engine, 0, (struct mr_text){id, strlen(id)});
        struct mr_engine_stats stats = mr_engine_stats(shared->rig.engine);
        if (stats.cache.free_count + stats.cache.cached_count + stats.cache.held_count !=
            stats.cache.block_count)
            abort(); /* words from two different snapshots */
        (void)mr_engine_room(shared->rig.engine);
    }
    return NULL;
}

static void run_round(void)
{
    struct shared *shared = calloc(1, sizeof *shared);
    assert_non_null(shared);
    rig_init(&shared->rig);
    shared->rig.options.queue_count_max = 16;
    shared->rig.options.wake = wake;
    shared->rig.options.wake_context = shared;
    pthread_mutex_init(&shared->mutex, NULL);
    pthread_cond_init(&shared->changed, NULL);
    rig_start(&shared->rig);
    pthread_t producers[PRODUCERS], cancellers[CANCELLERS];
    struct producer arguments[PRODUCERS];
    atomic_store(&shared->producing, PRODUCERS);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        arguments[i] = (struct producer){shared, i * EACH};
        assert_int_equal(pthread_create(&producers[i], NULL, produce, &arguments[i]), 0);
    }
    for (uint32_t i = 0; i < CANCELLERS; i++)
        assert_int_equal(pthread_create(&cancellers[i], NULL, cancel, shared), 0);
    bool more = true;
    while (more || atomic_load(&shared->producing) > 0) {
        more = rig_step(&shared->rig);
        if (!more && atomic_load(&shared->producing) > 0) wait_for_wake(shared);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    rig_run(&shared->rig);
    atomic_store(&shared->done, true);
    for (uint32_t i = 0; i < CANCELLERS; i++)
        pthread_join(cancellers[i], NULL);
    rig_run(&shared->rig);
    assert_int_equal(shared->rig.result_count, atomic_load(&shared->accepted));
    for (uint32_t i = 0; i < PRODUCERS * EACH; i++)
        assert_true(shared->rig.seen[i].results <= 1);
    assert_int_equal(mr_engine_stats(shared->rig.engine).cache.held_count, 0);
    rig_end(&shared->rig);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->mutex);
    free(shared);
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void every_accepted_request_has_one_result(void **state)
{
    (void)state;
    const uint64_t end_ns = monotonic_ns() + 1000000000u;
    uint32_t rounds = 0;
    lock_delays_set(true);
    for (; rounds == 0 || monotonic_ns() < end_ns; rounds++)
        run_round();
    lock_delays_set(false);
    printf("%u rounds\n", rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_accepted_request_has_one_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
