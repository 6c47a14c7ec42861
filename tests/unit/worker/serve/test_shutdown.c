/* The shutdown step under virtual time. */
#include "worker/serve/shutdown.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND ((uint64_t)1000000000)
#define DRAIN  (25 * SECOND)

struct rig {
    struct mr_shutdown *shutdown;
    unsigned signals;
    int ended; /* exit code; -1: the process runs */
};

static unsigned count(void *context)
{
    return ((struct rig *)context)->signals;
}

static void end(void *context, enum mr_exit code)
{
    ((struct rig *)context)->ended = (int)code;
}

static void open_rig(struct rig *rig, bool serving)
{
    *rig = (struct rig){.ended = -1};
    struct mr_shutdown_options options = {
        .drain_ns = DRAIN, .signal_fd = -1, .count = count, .end = end, .context = rig};
    assert_int_equal(mr_shutdown_create(&rig->shutdown, &options, NULL), MR_OK);
    if (serving) mr_shutdown_serve(rig->shutdown);
    assert_true(mr_shutdown_step(rig->shutdown, (struct mr_time){.ns = SECOND}) == UINT64_MAX);
    assert_int_equal(mr_shutdown_signals(rig->shutdown), 0);
}

static uint64_t step_at(struct rig *rig, uint64_t ns)
{
    return mr_shutdown_step(rig->shutdown, (struct mr_time){.ns = ns});
}

/* Expects that the process runs until end_ns and ends then. */
static void expect_end(struct rig *rig, uint64_t end_ns, int code)
{
    assert_int_equal(step_at(rig, end_ns - 1), end_ns);
    assert_int_equal(rig->ended, -1);
    step_at(rig, end_ns);
    assert_int_equal(rig->ended, code);
    mr_shutdown_destroy(rig->shutdown);
}

static void a_signal_while_the_worker_starts_ends_the_process_within_a_second(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, false);
    rig.signals = 1;
    assert_int_equal(step_at(&rig, 2 * SECOND), 3 * SECOND);
    assert_true(mr_wake_wait(mr_shutdown_wake(rig.shutdown), 0));
    mr_shutdown_serve(rig.shutdown); /* too late: the decision at the signal stays */
    expect_end(&rig, 3 * SECOND, MR_EXIT_DONE);
}

static void a_worker_that_serves_has_its_drain_timeout_and_less_than_5_seconds(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, true);
    rig.signals = 1;
    uint64_t end_ns = step_at(&rig, 2 * SECOND);
    assert_true(end_ns > 2 * SECOND + DRAIN + 4 * SECOND);
    assert_true(end_ns < 2 * SECOND + DRAIN + 5 * SECOND);
    expect_end(&rig, end_ns, MR_EXIT_FAILED);
}

static void the_second_signal_ends_the_process_within_a_second(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, true);
    rig.signals = 1;
    step_at(&rig, 2 * SECOND);
    rig.signals = 2;
    assert_int_equal(step_at(&rig, 9 * SECOND), 10 * SECOND);
    assert_int_equal(mr_shutdown_signals(rig.shutdown), 2);
    rig.signals = 3; /* changes nothing */
    expect_end(&rig, 10 * SECOND, MR_EXIT_DONE);
    open_rig(&rig, true);
    rig.signals = 2; /* both at once */
    assert_int_equal(step_at(&rig, 2 * SECOND), 3 * SECOND);
    expect_end(&rig, 3 * SECOND, MR_EXIT_DONE);
}

static void the_thread_sees_a_signal(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, true);
    rig.signals = 1;
    assert_int_equal(mr_shutdown_start(rig.shutdown, NULL), MR_OK);
    assert_true(mr_wake_wait(mr_shutdown_wake(rig.shutdown), 20 * SECOND));
    assert_int_equal(mr_shutdown_signals(rig.shutdown), 1);
    mr_shutdown_destroy(rig.shutdown); /* before the end: from here on nothing ends the process */
    assert_int_equal(rig.ended, -1);
    mr_shutdown_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_while_the_worker_starts_ends_the_process_within_a_second),
        cmocka_unit_test(a_worker_that_serves_has_its_drain_timeout_and_less_than_5_seconds),
        cmocka_unit_test(the_second_signal_ends_the_process_within_a_second),
        cmocka_unit_test(the_thread_sees_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
