#include "worker/base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct counter {
    struct mr_wake wake, stepped; /* `stepped` is rung by every step */
    atomic_uint steps;
    _Atomic uint64_t pause_ns; /* until the next step; UINT64_MAX: until the wake is rung */
    _Atomic uint64_t last_ns;
};

static uint64_t count_step(void *state, struct mr_time now)
{
    struct counter *counter = state;
    atomic_fetch_add(&counter->steps, 1);
    atomic_store(&counter->last_ns, now.ns);
    mr_wake_ring(&counter->stepped);
    uint64_t pause_ns = atomic_load(&counter->pause_ns);
    return pause_ns == UINT64_MAX ? UINT64_MAX : now.ns + pause_ns;
}

static struct mr_thread *start(struct counter *counter, uint64_t pause_ns)
{
    struct mr_thread *thread = NULL;
    *counter = (struct counter){.wake.fd = -1};
    atomic_store(&counter->pause_ns, pause_ns);
    assert_int_equal(mr_wake_open(&counter->wake, NULL), MR_OK);
    assert_int_equal(mr_wake_open(&counter->stepped, NULL), MR_OK);
    struct mr_thread_options options = {
        .name = "counter", .step = count_step, .state = counter, .wake = &counter->wake};
    assert_int_equal(mr_thread_start(&thread, &options, NULL), MR_OK);
    return thread;
}

static void stop(struct counter *counter, struct mr_thread *thread)
{
    mr_thread_stop(thread);
    mr_wake_close(&counter->wake);
    mr_wake_close(&counter->stepped);
}

/* A step that rings `entered` and does not return before `blocked` is rung. */
struct blocker {
    struct mr_wake entered, blocked;
};

static uint64_t block(void *state, struct mr_time now)
{
    struct blocker *blocker = state;
    (void)now;
    mr_wake_ring(&blocker->entered);
    mr_wake_wait(&blocker->blocked, UINT64_MAX);
    return UINT64_MAX;
}

static void a_thread_whose_step_does_not_return_is_left_behind(void **state)
{
    (void)state;
    struct mr_wake wake;
    struct blocker blocker;
    struct mr_thread *thread = NULL;
    assert_int_equal(mr_wake_open(&wake, NULL), MR_OK);
    assert_int_equal(mr_wake_open(&blocker.entered, NULL), MR_OK);
    assert_int_equal(mr_wake_open(&blocker.blocked, NULL), MR_OK);
    struct mr_thread_options options = {
        .name = "blocks", .step = block, .state = &blocker, .wake = &wake};
    assert_int_equal(mr_thread_start(&thread, &options, NULL), MR_OK);
    assert_true(mr_wake_wait(&blocker.entered, UINT64_MAX));
    assert_false(mr_thread_stop_within(thread, 1));
    mr_wake_ring(&blocker.blocked);
    assert_true(mr_thread_stop_within(thread, 60000)); /* now the step returns */
    assert_true(mr_thread_stop_within(NULL, 0));
    mr_wake_close(&blocker.blocked);
    mr_wake_close(&blocker.entered);
    mr_wake_close(&wake);
}

static void a_step_that_waits_for_its_wake_runs_once_for_each_ring(void **state)
{
    (void)state;
    struct counter counter;
    struct mr_thread *thread = start(&counter, UINT64_MAX);
    assert_true(mr_wake_wait(&counter.stepped, UINT64_MAX));
    assert_false(mr_wake_wait(&counter.stepped, 20000000));
    assert_int_equal(counter.steps, 1);
    mr_wake_ring(&counter.wake);
    assert_true(mr_wake_wait(&counter.stepped, UINT64_MAX));
    assert_int_equal(counter.steps, 2);
    stop(&counter, thread);
}

static void a_step_runs_again_at_the_time_it_returns(void **state)
{
    (void)state;
    struct counter counter;
    struct mr_thread *thread = start(&counter, 5000000);
    assert_true(mr_wake_wait(&counter.stepped, UINT64_MAX));
    uint64_t first_ns = counter.last_ns;
    while (counter.steps < 3)
        assert_true(mr_wake_wait(&counter.stepped, UINT64_MAX));
    assert_true(counter.last_ns >= first_ns + 2 * 5000000);
    stop(&counter, thread);
}

static void stopping_ends_a_thread_that_sleeps(void **state)
{
    (void)state;
    struct counter counter;
    struct mr_thread *thread = start(&counter, UINT64_MAX);
    assert_true(mr_wake_wait(&counter.stepped, UINT64_MAX));
    stop(&counter, thread);
    assert_int_equal(counter.steps, 1);
    mr_thread_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_whose_step_does_not_return_is_left_behind),
        cmocka_unit_test(a_step_that_waits_for_its_wake_runs_once_for_each_ring),
        cmocka_unit_test(a_step_runs_again_at_the_time_it_returns),
        cmocka_unit_test(stopping_ends_a_thread_that_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
