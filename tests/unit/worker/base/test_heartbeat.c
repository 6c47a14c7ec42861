#include "worker/base/heartbeat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_step_longer_than_its_thread_s_bound_is_stuck(void **state)
{
    struct mr_heartbeats beats = {0};
    uint64_t since_ns;
    (void)state;
    struct mr_heartbeat *quick = mr_heartbeat_add(&beats, "quick", 10);
    struct mr_heartbeat *slow = mr_heartbeat_add(&beats, "slow", 1000);
    mr_heartbeat_begin(slow, 100);
    mr_heartbeat_begin(quick, 500);
    assert_null(mr_heartbeat_stuck(&beats, 510, &since_ns));
    assert_string_equal(mr_heartbeat_stuck(&beats, 511, &since_ns), "quick");
    assert_int_equal(since_ns, 500);
    mr_heartbeat_end(quick); /* it sleeps: never late */
    assert_null(mr_heartbeat_stuck(&beats, 1100, &since_ns));
    assert_string_equal(mr_heartbeat_stuck(&beats, 1101, &since_ns), "slow");
    mr_heartbeat_remove(slow);
    assert_null(mr_heartbeat_stuck(&beats, 1101, &since_ns));
}

static void places_are_used_again_and_one_too_many_is_not_watched(void **state)
{
    struct mr_heartbeats beats = {0};
    struct mr_heartbeat *one = NULL;
    (void)state;
    for (unsigned i = 0; i < MR_HEARTBEATS_MAX; i++)
        assert_non_null(one = mr_heartbeat_add(&beats, "t", 1));
    assert_null(mr_heartbeat_add(&beats, "t", 1));
    mr_heartbeat_remove(one);
    assert_ptr_equal(mr_heartbeat_add(&beats, "t", 1), one);
    assert_null(mr_heartbeat_add(NULL, "t", 1));
    mr_heartbeat_begin(NULL, 1);
    mr_heartbeat_end(NULL);
    mr_heartbeat_remove(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_longer_than_its_thread_s_bound_is_stuck),
        cmocka_unit_test(places_are_used_again_and_one_too_many_is_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
