#include "batching/scheduler/admit.h"

#include "tests/fakes/scheduler_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

static void prefills_that_start_together_are_bounded(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.prefill_batch_max = 3;
    scheduler_rig_start(&rig);
    for (uint32_t i = 0; i < 5; i++)
        scheduler_rig_add(&rig, 40 * i, 10, 20, 0);
    assert_int_equal(scheduler_rig_step(&rig)->row_count, 3);
    assert_int_equal(scheduler_rig_step(&rig)->row_count, 5);
    scheduler_rig_end(&rig);
    scheduler_rig_init(&rig);
    rig.options.geometry = (struct mr_memory_geometry){.kv_bytes_per_token = 10};
    rig.options.prefill_bytes_max = 20 * BLOCK;
    scheduler_rig_start(&rig);
    for (uint32_t i = 0; i < 5; i++)
        scheduler_rig_add(&rig, 40 * i, 10, 20, 0);
    assert_int_equal(scheduler_rig_step(&rig)->row_count, 2);
    scheduler_rig_end(&rig);
}

static void requests_wait_for_a_common_prefix_being_computed(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    scheduler_rig_start(&rig);
    struct mr_sequence *first = scheduler_rig_add(&rig, 1, 100, 20, 0);
    struct mr_sequence *follower = scheduler_rig_add(&rig, 1, 110, 20, 0);
    struct mr_sequence *other = scheduler_rig_add(&rig, 90, 100, 20, 0);
    const struct mr_plan *plan = scheduler_rig_step(&rig);
    assert_int_equal(scheduler_rig_planned(plan, first), 100);
    assert_int_equal(scheduler_rig_planned(plan, follower), 0);
    assert_int_equal(scheduler_rig_planned(plan, other), 100);
    assert_int_equal(scheduler_rig_planned(scheduler_rig_step(&rig), follower), 10);
    scheduler_rig_end(&rig);
}

static void what_does_not_fit_is_passed_over_but_not_for_ever(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.block_count = 12;
    rig.prefix_cache = false;
    scheduler_rig_start(&rig);
    struct mr_sequence *keeper = scheduler_rig_add(&rig, 1, 4 * BLOCK, 8 * BLOCK, 0);
    scheduler_rig_step(&rig);
    scheduler_rig_step(&rig);
    struct mr_sequence *large = scheduler_rig_add(&rig, 50, 9 * BLOCK, 4, 0);
    uint32_t passed = 0;
    for (uint32_t round = 0; round < 20; round++) {
        struct mr_sequence *small = scheduler_rig_add(&rig, 20 * round, 10, 4, 0);
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        assert_int_equal(scheduler_rig_planned(plan, large), 0);
        if (scheduler_rig_planned(plan, small) == 0) break;
        passed++;
        mr_scheduler_remove(rig.scheduler, small, rig.now_ns);
    }
    assert_true(passed > 8);
    large->skipped = MR_SKIPS_MAX;
    struct mr_sequence *small = scheduler_rig_add(&rig, 3, 10, 4, 0);
    assert_int_equal(scheduler_rig_planned(scheduler_rig_step(&rig), small), 0);
    mr_scheduler_remove(rig.scheduler, keeper, rig.now_ns);
    assert_true(scheduler_rig_planned(scheduler_rig_step(&rig), large) > 0);
    scheduler_rig_end(&rig);
}

/* Plans steps in which one request must end within a second. Returns how many were rejected before
 * the first that was not; `most`: none was admitted. */
static uint32_t rejected_in_a_row(struct scheduler_rig *rig, uint32_t most)
{
    for (uint32_t i = 0; i < most; i++) {
        struct mr_sequence *sequence = scheduler_rig_add(rig, 1, 100, 2, 0);
        sequence->job->deadline_ns = rig->now_ns + 1000000000;
        const struct mr_plan *plan = scheduler_rig_step(rig);
        if (plan->late_count == 0) {
            assert_int_equal(scheduler_rig_planned(plan, sequence), 100);
            mr_scheduler_remove(rig->scheduler, sequence, rig->now_ns);
            return i;
        }
    }
    return most;
}

/* A forecast that is too long is corrected when the machine is fast again. */
static void a_request_runs_now_and_then_although_predicted_late(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.deadline_admission = true;
    rig.prefix_cache = false;
    rig.now_ns = (uint64_t)100 * 1000000000;
    scheduler_rig_teach(&rig, 5000.0, 1.0, 1.0);
    scheduler_rig_start(&rig);
    assert_int_equal(rejected_in_a_row(&rig, 10), 8);
    assert_int_equal(rejected_in_a_row(&rig, 10), 10); /* too soon after the last trial */
    rig.now_ns += (uint64_t)10 * 1000000000;
    assert_int_equal(rejected_in_a_row(&rig, 10), 0);
    rig.now_ns += (uint64_t)10 * 1000000000;
    assert_int_equal(rejected_in_a_row(&rig, 10), 8);
    scheduler_rig_end(&rig);
}

static void a_late_request_does_not_wait_for_blocks(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.deadline_admission = true;
    rig.options.block_count = 12;
    rig.prefix_cache = false;
    rig.now_ns = (uint64_t)100 * 1000000000;
    scheduler_rig_teach(&rig, 5000.0, 1.0, 1.0);
    scheduler_rig_start(&rig);
    scheduler_rig_add(&rig, 1, 4 * BLOCK, 8 * BLOCK, 0);
    scheduler_rig_step(&rig);
    assert_int_equal(rejected_in_a_row(&rig, 8), 8);
    struct mr_sequence *large = scheduler_rig_add(&rig, 50, 9 * BLOCK, 4, 0);
    large->job->deadline_ns = rig.now_ns + 1000000000;
    assert_int_equal(scheduler_rig_step(&rig)->late_count, 1);
    scheduler_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefills_that_start_together_are_bounded),
        cmocka_unit_test(requests_wait_for_a_common_prefix_being_computed),
        cmocka_unit_test(what_does_not_fit_is_passed_over_but_not_for_ever),
        cmocka_unit_test(a_request_runs_now_and_then_although_predicted_late),
        cmocka_unit_test(a_late_request_does_not_wait_for_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
