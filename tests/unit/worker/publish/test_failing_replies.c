#include "worker/publish/failing_replies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define SECOND ((uint64_t)1000000000)

static void a_place_is_given_up_when_it_has_failed_for_long_enough(void **state)
{
    (void)state;
    struct mr_failing_replies failing = {0};
    const uint64_t began_ns = 100 * SECOND, late_ns = began_ns + MR_FAILING_REPLY_NS;
    const uint64_t end_ns = late_ns + MR_FAILING_HOLD_NS;
    assert_false(mr_failing_replies_add(&failing, "a", 3, began_ns, late_ns - 1));
    assert_false(mr_failing_replies_has(&failing, "a", 3, late_ns - 1));
    assert_true(mr_failing_replies_add(&failing, "a", 3, late_ns - 1, late_ns));
    assert_true(mr_failing_replies_has(&failing, "a", 3, late_ns));
    assert_false(mr_failing_replies_has(&failing, "a", 2, late_ns));
    assert_false(mr_failing_replies_has(&failing, "b", 3, late_ns));
    assert_true(mr_failing_replies_has(&failing, "a", 3, end_ns - 1));
    assert_false(mr_failing_replies_has(&failing, "a", 3, end_ns));
    assert_true(mr_failing_replies_add(&failing, "a", 3, end_ns, end_ns + 1)); /* still so */
    assert_true(mr_failing_replies_has(&failing, "a", 3, end_ns + 2));
}

static void a_place_that_takes_replies_again_or_was_not_used_for_long_begins_anew(void **state)
{
    (void)state;
    struct mr_failing_replies failing = {0};
    const uint64_t late_ns = SECOND + MR_FAILING_REPLY_NS;
    assert_true(mr_failing_replies_add(&failing, "a", -1, SECOND, late_ns));
    mr_failing_replies_remove(&failing, "a", 0);
    assert_true(mr_failing_replies_has(&failing, "a", -1, late_ns));
    mr_failing_replies_remove(&failing, "a", -1);
    assert_false(mr_failing_replies_has(&failing, "a", -1, late_ns));
    assert_false(mr_failing_replies_add(&failing, "a", -1, late_ns, late_ns + SECOND));
    const uint64_t forgotten_ns = late_ns + SECOND + MR_FAILING_FORGET_NS + 1;
    assert_false(mr_failing_replies_add(&failing, "a", -1, forgotten_ns - SECOND, forgotten_ns));
}

/* Between the failures nothing ran, or other records failed too. */
static void an_outage_between_two_failures_does_not_count(void **state)
{
    (void)state;
    struct mr_failing_replies failing = {0};
    assert_false(mr_failing_replies_add(&failing, "a", 0, 10 * SECOND, 12 * SECOND));
    assert_false(mr_failing_replies_add(&failing, "a", 0, 100 * SECOND, 102 * SECOND));
    assert_false(mr_failing_replies_add(&failing, "a", 0, 200 * SECOND, 208 * SECOND));
    assert_true(mr_failing_replies_add(&failing, "a", 0, 208 * SECOND + 1, 211 * SECOND));
}

/* Each fails within milliseconds, and the next one begins half a second later. */
static void failures_that_come_quickly_count_with_the_pauses_between_them(void **state)
{
    (void)state;
    struct mr_failing_replies failing = {0};
    uint64_t now_ns = 10 * SECOND;
    while (!mr_failing_replies_add(&failing, "a", 0, now_ns, now_ns + SECOND / 100))
        now_ns += SECOND / 2;
    assert_in_range(now_ns, 24 * SECOND, 26 * SECOND);
}

static void many_replies_of_one_transaction_count_once(void **state)
{
    (void)state;
    struct mr_failing_replies failing = {0};
    for (int i = 0; i < 5; i++)
        assert_false(mr_failing_replies_add(&failing, "a", 0, 10 * SECOND, 20 * SECOND));
    for (int i = 0; i < 5; i++) /* the next one; each of its replies is abandoned */
        assert_true(mr_failing_replies_add(&failing, "a", 0, 20 * SECOND, 30 * SECOND));
}

static void with_too_many_places_the_oldest_is_forgotten(void **state)
{
    (void)state;
    struct mr_failing_replies failing = {0};
    for (int32_t i = 0; i <= (int32_t)MR_FAILING_PLACES_MAX; i++)
        assert_true(mr_failing_replies_add(&failing, "a", i, SECOND, (100 + (uint64_t)i) * SECOND));
    assert_int_equal(failing.count, MR_FAILING_PLACES_MAX);
    assert_false(mr_failing_replies_has(&failing, "a", 0, 140 * SECOND));
    for (int32_t i = 1; i <= (int32_t)MR_FAILING_PLACES_MAX; i++)
        assert_true(mr_failing_replies_has(&failing, "a", i, 140 * SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_given_up_when_it_has_failed_for_long_enough),
        cmocka_unit_test(a_place_that_takes_replies_again_or_was_not_used_for_long_begins_anew),
        cmocka_unit_test(an_outage_between_two_failures_does_not_count),
        cmocka_unit_test(failures_that_come_quickly_count_with_the_pauses_between_them),
        cmocka_unit_test(many_replies_of_one_transaction_count_once),
        cmocka_unit_test(with_too_many_places_the_oldest_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
