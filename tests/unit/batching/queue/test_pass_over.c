#include "batching/queue/pass_over.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void misfits_before_a_taken_candidate_age_by_one(void **state)
{
    (void)state;
    struct mr_pass_over walk = {.count = 0};
    uint32_t skipped[2] = {0, 0};
    assert_true(mr_pass_over_add(&walk, &skipped[0], &skipped[0], 8));
    mr_pass_over_taken(&walk);
    mr_pass_over_taken(&walk);
    assert_true(mr_pass_over_add(&walk, &skipped[1], &skipped[1], 8));
    mr_pass_over_age(&walk);
    assert_int_equal(skipped[0], 1);
    assert_int_equal(skipped[1], 0);
    assert_int_equal(walk.count, 2);
    assert_ptr_equal(walk.passed[1].candidate, &skipped[1]);
}

static void a_misfit_passed_over_too_often_stops_the_walk(void **state)
{
    (void)state;
    uint32_t skipped = 0;
    for (uint32_t i = 0; i < 3; i++) {
        struct mr_pass_over walk = {.count = 0};
        assert_true(mr_pass_over_add(&walk, &skipped, &skipped, 3));
        mr_pass_over_taken(&walk);
        mr_pass_over_age(&walk);
    }
    struct mr_pass_over walk = {.count = 0};
    assert_false(mr_pass_over_add(&walk, &skipped, &skipped, 3));
}

static void other_candidates_do_not_age(void **state)
{
    (void)state;
    struct mr_pass_over walk = {.count = 0};
    assert_true(mr_pass_over_add(&walk, NULL, NULL, 0));
    mr_pass_over_taken(&walk);
    mr_pass_over_age(&walk);
    while (walk.count < MR_PASS_OVER_MAX)
        (void)mr_pass_over_add(&walk, NULL, NULL, 0);
    expect_assert_failure(mr_pass_over_add(&walk, NULL, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_before_a_taken_candidate_age_by_one),
        cmocka_unit_test(a_misfit_passed_over_too_often_stops_the_walk),
        cmocka_unit_test(other_candidates_do_not_age),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
