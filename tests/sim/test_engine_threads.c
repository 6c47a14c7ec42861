/* Producers, a canceller and a reader of statistics on threads of their own, the engine on this
 * one: every request that was accepted has one result. Meant for ThreadSanitizer as well. */
#include "tests/fakes/engine_rig.h"

#include <pthread.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PRODUCERS 2u
#define EACH      30u

struct stage {
    struct engine_rig rig;
    atomic_uint accepted, producing;
    atomic_bool done;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool woken; /* under mutex */
};

static void wake(void *context)
{
    struct stage *stage = context;
    pthread_mutex_lock(&stage->mutex);
    stage->woken = true;
    pthread_cond_signal(&stage->changed);
    pthread_mutex_unlock(&stage->mutex);
}

static void wait_for_wake(struct stage *stage)
{
    pthread_mutex_lock(&stage->mutex);
    while (!stage->woken)
        pthread_cond_wait(&stage->changed, &stage->mutex);
    stage->woken = false;
    pthread_mutex_unlock(&stage->mutex);
}

struct producer {
    struct stage *stage;
    uint32_t first;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct engine_rig *rig = &producer->stage->rig;
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
            atomic_fetch_add(&producer->stage->accepted, 1);
    }
    atomic_fetch_sub(&producer->stage->producing, 1);
    wake(producer->stage);
    return NULL;
}

static void *cancel(void *argument)
{
    struct stage *stage = argument;
    for (uint32_t ticket = 0; !atomic_load(&stage->done); ticket = (ticket + 7) % 60) {
        char id[16];
        snprintf(id, sizeof id, "%u", ticket);
        mr_engine_cancel(stage->rig.engine, (struct mr_text){id, strlen(id)});
        struct mr_engine_stats stats = mr_engine_stats(stage->rig.engine);
        if (stats.blocks_free + stats.blocks_cached + stats.blocks_held != stats.blocks_total)
            abort(); /* half of one snapshot, half of another */
        (void)mr_engine_room(stage->rig.engine);
    }
    return NULL;
}

static void every_accepted_request_has_one_result(void **state)
{
    (void)state;
    struct stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    rig_init(&stage->rig);
    stage->rig.options.queue_count_max = 16;
    stage->rig.options.wake = wake;
    stage->rig.options.wake_context = stage;
    pthread_mutex_init(&stage->mutex, NULL);
    pthread_cond_init(&stage->changed, NULL);
    rig_start(&stage->rig);
    pthread_t producers[PRODUCERS], canceller;
    struct producer arguments[PRODUCERS];
    atomic_store(&stage->producing, PRODUCERS);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        arguments[i] = (struct producer){stage, i * EACH};
        assert_int_equal(pthread_create(&producers[i], NULL, produce, &arguments[i]), 0);
    }
    assert_int_equal(pthread_create(&canceller, NULL, cancel, stage), 0);
    bool more = true;
    while (more || atomic_load(&stage->producing) > 0) {
        more = rig_step(&stage->rig);
        if (!more && atomic_load(&stage->producing) > 0) wait_for_wake(stage);
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    rig_run(&stage->rig);
    atomic_store(&stage->done, true);
    pthread_join(canceller, NULL);
    rig_run(&stage->rig);
    assert_int_equal(stage->rig.result_count, atomic_load(&stage->accepted));
    for (uint32_t i = 0; i < PRODUCERS * EACH; i++)
        assert_true(stage->rig.seen[i].results <= 1);
    assert_int_equal(mr_engine_stats(stage->rig.engine).blocks_held, 0);
    rig_end(&stage->rig);
    pthread_cond_destroy(&stage->changed);
    pthread_mutex_destroy(&stage->mutex);
    free(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_accepted_request_has_one_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
