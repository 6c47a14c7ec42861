#include "worker/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_monotonic_clock_never_goes_back(void **state)
{
    (void)state;
    uint64_t last_ns = mr_clock_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now_ns = mr_clock_ns();
        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

static void unix_time_is_of_this_century(void **state)
{
    (void)state;
    assert_true(mr_clock_unix_ms() > 1700000000000);
    assert_true(mr_clock_unix_ms() < 4100000000000);
}

static void a_unix_deadline_becomes_a_monotonic_one(void **state)
{
    (void)state;
    uint64_t before_ns = mr_clock_ns();
    struct mr_time now = mr_clock_now();
    assert_true(mr_time_from_unix_ms(&now, mr_clock_unix_ms() + 3600000) >
                before_ns + (uint64_t)3590000 * 1000000);
    uint64_t past_ns = mr_time_from_unix_ms(&now, 1);
    assert_true(past_ns >= before_ns && past_ns <= mr_clock_ns());
    assert_true(mr_time_from_unix_ms(&now, 0) == 0);
}

static void nanoseconds_become_a_timespec(void **state)
{
    (void)state;
    struct timespec time = mr_clock_timespec(3999999999u);
    assert_true(time.tv_sec == 3 && time.tv_nsec == 999999999);
    time = mr_clock_timespec(4000000000u);
    assert_true(time.tv_sec == 4 && time.tv_nsec == 0);
}

static void time_left_is_rounded_up_and_never_negative(void **state)
{
    (void)state;
    assert_int_equal(mr_clock_left_ms(5000000, 5000000), 0);
    assert_int_equal(mr_clock_left_ms(6000000, 5000000), 0);
    assert_int_equal(mr_clock_left_ms(5000000, 5000001), 1);
    assert_int_equal(mr_clock_left_ms(5000000, 6000000), 1);
    assert_int_equal(mr_clock_left_ms(5000000, 6000001), 2);
    assert_int_equal(mr_clock_left_ms(0, UINT64_MAX), INT32_MAX);
}

static void a_wait_ends_at_its_time_and_a_sleep_lasts_as_long(void **state)
{
    (void)state;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    uint64_t until_ns = mr_clock_ns() + 20000000;
    pthread_mutex_lock(&mutex);
    while (mr_clock_wait(&condition, &mutex, until_ns))
        ; /* it may wake without a reason */
    pthread_mutex_unlock(&mutex);
    assert_true(mr_clock_ns() >= until_ns);
    until_ns = mr_clock_ns() + 20000000;
    mr_clock_sleep_ms(20);
    assert_true(mr_clock_ns() >= until_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_never_goes_back),
        cmocka_unit_test(unix_time_is_of_this_century),
        cmocka_unit_test(a_unix_deadline_becomes_a_monotonic_one),
        cmocka_unit_test(nanoseconds_become_a_timespec),
        cmocka_unit_test(a_wait_ends_at_its_time_and_a_sleep_lasts_as_long),
        cmocka_unit_test(time_left_is_rounded_up_and_never_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
