/* How many requests of a batch are in flight. */
#include "worker/batch/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Simulates a fleet that answers at most `rate` requests a second, each in at least `latency_s`.
 * Returns the window after `seconds`. */
static uint32_t settle(uint32_t most, double rate, double latency_s, double seconds)
{
    struct mr_pace pace;
    double now_s = 0;
    mr_pace_init(&pace, most, 0);
    while (now_s < seconds) {
        const double by_latency = (double)pace.window / latency_s;
        now_s += 1 / (by_latency < rate ? by_latency : rate);
        mr_pace_full(&pace);
        mr_pace_answered(&pace, (uint64_t)(now_s * 1e9));
        assert_true(pace.window >= pace.least && pace.window <= most);
    }
    return pace.window;
}

static void the_window_follows_what_the_fleet_answers(void **state)
{
    (void)state;
    /* 1,000 requests a second of 1 s each need 1,000 in flight */
    const uint32_t window = settle(8192, 1000, 1, 600);
    assert_true(window >= 1000 && window <= 4096);
    /* 50 requests a second of 1 s each: the least window is enough */
    assert_true(settle(8192, 50, 1, 600) <= 128);
    /* a fleet without a limit gets the most */
    assert_int_equal(settle(512, 1e9, 1, 600), 512);
    assert_int_equal(settle(10, 1e9, 1, 60), 10);
}

static void a_round_without_lines_to_send_changes_nothing(void **state)
{
    (void)state;
    struct mr_pace pace;
    mr_pace_init(&pace, 8192, 0);
    for (uint64_t i = 1; i < 1000; i++)
        mr_pace_answered(&pace, i * 100000000);
    assert_int_equal(pace.window, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_follows_what_the_fleet_answers),
        cmocka_unit_test(a_round_without_lines_to_send_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
