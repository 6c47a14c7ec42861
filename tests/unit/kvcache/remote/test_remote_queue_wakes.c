#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue_state.h"

#include <string.h>
#include <unistd.h>

#define THREADS MR_REMOTE_THREADS_MAX
#define VALUES  64u

struct rig {
    struct mr_remote_queue *queue;
    unsigned wakes;
    bool woken[THREADS];
    struct waker {
        struct rig *rig;
        uint32_t index;
    } wakers[THREADS];
};

/* Uses the queue as the engine does: this hangs if the lock is held. */
static void on_wake(void *context)
{
    struct waker *waker = context;
    struct mr_remote_answer answer;
    (void)mr_remote_queue_rates(waker->rig->queue);
    (void)mr_remote_queue_poll(waker->rig->queue, &answer);
    waker->rig->wakes++;
    waker->rig->woken[waker->index] = true;
}

static void rig_open(struct rig *rig)
{
    struct mr_remote_queue_options options = {.thread_count = THREADS,
                                              .lookup_timeout_ns = 1000,
                                              .transfer_timeout_ns = 1000000,
                                              .store_bytes_max = 1 << 30,
                                              .present_ns = 10000};
    *rig = (struct rig){0};
    assert_int_equal(mr_remote_queue_create(&rig->queue, &options, NULL), MR_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        rig->wakers[i] = (struct waker){rig, i};
        mr_remote_queue_set_ready(rig->queue, i, true, 0);
        mr_remote_queue_attach(rig->queue, i, on_wake, &rig->wakers[i]);
    }
    alarm(60); /* ends a test that hangs */
}

static void post_load(struct rig *rig)
{
    static struct mr_remote_value values[VALUES];
    static unsigned char bytes[MR_LOAD_AHEAD_FIRST / 4];
    struct mr_remote_operation posted = {.id = 1, .values = values, .count = VALUES};
    for (uint32_t i = 0; i < VALUES; i++) {
        memset(values[i].key, (int)i + 1, MR_HASH_BYTES);
        values[i].bytes = bytes;
        values[i].length = sizeof bytes;
    }
    assert_int_equal(mr_remote_queue_post(rig->queue, MR_REMOTE_LOAD, &posted, 0), VALUES);
}

static void the_queue_can_be_used_while_it_wakes_threads(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig);
    post_load(&rig);
    assert_int_equal(rig.wakes, THREADS - 1);
    mr_remote_queue_cancel(rig.queue, 1);
    mr_remote_queue_destroy(rig.queue);
}

/* Each thread has two slices at most, as a connection thread. A thread that takes nothing sleeps
 * until it is woken, so all slices are loaded only if enough threads are woken. */
static void a_finished_get_wakes_no_more_than_two_threads(void **state)
{
    struct rig rig;
    struct mr_remote_slice *held[THREADS][2] = {{0}};
    unsigned finished = 0;
    (void)state;
    rig_open(&rig);
    post_load(&rig);
    for (uint64_t now_ns = 1; finished < VALUES; now_ns++) {
        for (uint32_t i = 1; i < THREADS; i++) {
            if (!rig.woken[i]) continue;
            rig.woken[i] = false;
            for (int k = 0; k < 2; k++)
                if (!held[i][k]) held[i][k] = mr_remote_queue_take(rig.queue, i, now_ns);
        }
        uint32_t from = 1;
        while (from < THREADS && !held[from][0] && !held[from][1])
            from++;
        assert_true(from < THREADS); /* otherwise every thread sleeps and slices are left */
        int k = held[from][0] ? 0 : 1;
        while (mr_remote_queue_finish(rig.queue, held[from][k], true, now_ns))
            ;
        held[from][k] = NULL;
        rig.woken[from] = true; /* after a reply a thread takes as many slices as it can */
        finished++;
    }
    assert_in_range(rig.wakes, THREADS - 1, THREADS - 1 + 2 * VALUES); /* not 16 * VALUES */
    mr_remote_queue_check(rig.queue);
    mr_remote_queue_destroy(rig.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_can_be_used_while_it_wakes_threads),
        cmocka_unit_test(a_finished_get_wakes_no_more_than_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
