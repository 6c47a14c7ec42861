#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/redis_client_state.h"

static void three_failures_in_a_row_open_it(void **state)
{
    struct mr_redis_breaker breaker;
    (void)state;
    mr_redis_breaker_init(&breaker, 1);
    for (uint32_t i = 1; i < MR_BREAKER_FAILURES; i++) {
        mr_redis_breaker_failed(&breaker, 0);
        assert_int_equal(breaker.state, MR_BREAKER_CLOSED);
    }
    mr_redis_breaker_succeeded(&breaker);
    for (uint32_t i = 0; i < MR_BREAKER_FAILURES; i++)
        mr_redis_breaker_failed(&breaker, 0);
    assert_int_equal(breaker.state, MR_BREAKER_OPEN);
    assert_int_equal(breaker.openings, 1);
    assert_false(mr_redis_breaker_allows(&breaker, 0));
}

static void one_attempt_is_allowed_after_the_wait(void **state)
{
    struct mr_redis_breaker breaker;
    (void)state;
    mr_redis_breaker_init(&breaker, 1);
    for (uint32_t i = 0; i < MR_BREAKER_FAILURES; i++)
        mr_redis_breaker_failed(&breaker, 0);
    uint64_t when_ns = breaker.retry_ns;
    assert_false(mr_redis_breaker_allows(&breaker, when_ns - 1));
    assert_true(mr_redis_breaker_allows(&breaker, when_ns));
    assert_int_equal(breaker.state, MR_BREAKER_HALF_OPEN);
    assert_false(mr_redis_breaker_allows(&breaker, when_ns));
    mr_redis_breaker_succeeded(&breaker);
    assert_true(mr_redis_breaker_allows(&breaker, when_ns));
}

static void waits_double_up_to_a_limit_with_jitter(void **state)
{
    struct mr_redis_breaker breaker, other;
    uint64_t limit_ns = MR_BREAKER_WAIT_MIN_NS;
    int differ = 0;
    (void)state;
    mr_redis_breaker_init(&breaker, 1);
    mr_redis_breaker_init(&other, 2);
    for (int i = 0; i < 40; i++) {
        mr_redis_breaker_failed(&breaker, 1000);
        mr_redis_breaker_failed(&other, 1000);
        uint64_t wait_ns = breaker.retry_ns - 1000;
        assert_true(wait_ns >= limit_ns / 2 && wait_ns <= limit_ns);
        differ += breaker.retry_ns != other.retry_ns;
        limit_ns = limit_ns * 2 < MR_BREAKER_WAIT_MAX_NS ? limit_ns * 2 : MR_BREAKER_WAIT_MAX_NS;
    }
    assert_true(differ > 30);
    assert_int_equal(limit_ns, MR_BREAKER_WAIT_MAX_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_failures_in_a_row_open_it),
        cmocka_unit_test(one_attempt_is_allowed_after_the_wait),
        cmocka_unit_test(waits_double_up_to_a_limit_with_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
