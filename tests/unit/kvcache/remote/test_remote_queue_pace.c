#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue_state.h"

static void the_limit_grows_with_what_was_received(void **state)
{
    struct mr_load_pace pace;
    uint64_t mib = (uint64_t)1 << 20;
    (void)state;
    mr_load_pace_init(&pace);
    mr_load_pace_request(&pace, 1, 3 * mib, 10);
    assert_true(pace.received_ns == 10);
    assert_true(mr_load_pace_allows(&pace, 1, 100 * mib)); /* alone: always one more */
    assert_true(mr_load_pace_allows(&pace, 2, 1 * mib));
    assert_false(mr_load_pace_allows(&pace, 2, 2 * mib));
    mr_load_pace_request(&pace, 2, 1 * mib, 11);
    mr_load_pace_finish(&pace, 1, 3 * mib);
    assert_true(mr_load_pace_allows(&pace, 1, 6 * mib));
    assert_false(mr_load_pace_allows(&pace, 1, 7 * mib));
    mr_load_pace_finish(&pace, 2, 1 * mib);
    assert_int_equal(pace.limit_bytes, MR_LOAD_AHEAD_FIRST);
    mr_load_pace_check(&pace);
}

static void a_trickle_of_bytes_counts_as_silence(void **state)
{
    struct mr_load_pace pace;
    (void)state;
    mr_load_pace_init(&pace);
    mr_load_pace_measure(&pace, 1e9, 0); /* a byte a nanosecond */
    mr_load_pace_request(&pace, 1, 1000, 0);
    mr_load_pace_receive(&pace, 500, 1000);
    assert_int_equal(pace.received_ns, 1000);
    mr_load_pace_receive(&pace, 1, 2000);
    assert_int_equal(pace.received_ns, 1008);
    mr_load_pace_finish(&pace, 1, 1000);
}

static void old_rates_are_stale(void **state)
{
    struct mr_load_pace pace;
    uint64_t minute_ns = (uint64_t)60 * 1000000000;
    (void)state;
    mr_load_pace_init(&pace);
    assert_true(mr_load_pace_is_stale(&pace, 0, 5));
    mr_load_pace_measure(&pace, 100, 10);
    mr_load_pace_measure(&pace, 200, 10);
    assert_true(pace.bytes_per_second > 129 && pace.bytes_per_second < 131);
    assert_false(mr_load_pace_is_stale(&pace, 5, minute_ns)); /* no lookup since */
    assert_true(mr_load_pace_is_stale(&pace, 11, minute_ns));
    mr_load_pace_lookup_took(&pace, 80);
    mr_load_pace_lookup_took(&pace, 160);
    assert_int_equal(pace.round_trip_ns, 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_grows_with_what_was_received),
        cmocka_unit_test(a_trickle_of_bytes_counts_as_silence),
        cmocka_unit_test(old_rates_are_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
