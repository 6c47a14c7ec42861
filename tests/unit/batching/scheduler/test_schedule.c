#include "batching/scheduler/schedule.h"

#include "tests/fakes/scheduler_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

/* Large chunks end on blocks, smaller ones on parts of them, so that at most a quarter of a step's
 * tokens is left unused. */
static void chunks_end_on_blocks_or_parts_of_them(void **state)
{
    static const struct {
        uint32_t most, part;
    } cases[] = {{4 * BLOCK + 5, BLOCK}, {2 * BLOCK + BLOCK / 2, BLOCK / 2}, {63, 16}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scheduler_rig rig;
        scheduler_rig_init(&rig);
        rig.options.chunk_tokens = (int32_t)cases[i].most;
        scheduler_rig_start(&rig);
        struct mr_sequence *sequence = scheduler_rig_add(&rig, 1, 9 * BLOCK + 3, 20, 0);
        uint32_t left = 9 * BLOCK + 3;
        for (; left > cases[i].most; left = 9 * BLOCK + 3 - sequence->num_computed) {
            const uint32_t count = scheduler_rig_planned(scheduler_rig_step(&rig), sequence);
            assert_in_range(count, cases[i].most * 3 / 4, cases[i].most);
            assert_int_equal(sequence->num_computed % cases[i].part, 0);
        }
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        assert_int_equal(scheduler_rig_planned(plan, sequence), left);
        assert_true(plan->rows[0].samples);
        scheduler_rig_end(&rig);
    }
}

static void chunks_below_a_block_end_on_a_power_of_two(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.chunk_tokens = 13;
    scheduler_rig_start(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 1, 200, 20, 0);
    for (uint32_t i = 0; i < 8; i++) {
        scheduler_rig_step(&rig);
        assert_int_equal(sequence->num_computed % 8, 0);
        assert_true(sequence->num_computed >= 8 * (i + 1));
    }
    scheduler_rig_end(&rig);
}

static void without_chunking_a_prompt_runs_whole(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.chunk_tokens = 0;
    rig.options.step_target_ms = 1;
    scheduler_rig_start(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 1, 4000, 20, 0);
    assert_int_equal(scheduler_rig_planned(scheduler_rig_step(&rig), sequence), 4000);
    scheduler_rig_end(&rig);
}

static void chunks_shrink_to_the_time_left_beside_decodes(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.step_target_ms = 40;
    scheduler_rig_teach(&rig, 10, 1, 0.5);
    scheduler_rig_start(&rig);
    scheduler_rig_add(&rig, 1, 10, 200, 0);
    scheduler_rig_step(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 50, 2000, 20, 0);
    for (uint32_t i = 0; i < 10; i++) {
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        assert_in_range(scheduler_rig_planned(plan, sequence), 40, 58);
        assert_true(plan->predicted_ms <= 40.0);
    }
    scheduler_rig_end(&rig);
}

/* The cost model has learnt these steps: 10 ms, 1 ms a decode row, 0.5 ms a prefill token, or ten
 * times these. */
static void the_automatic_target_follows_the_machine(void **state)
{
    (void)state;
    for (double slow = 1; slow <= 10; slow += 9) {
        struct scheduler_rig rig;
        scheduler_rig_init(&rig);
        rig.options.step_target_ms = MR_STEP_TARGET_AUTO;
        scheduler_rig_teach(&rig, 10 * slow, slow, 0.5 * slow);
        scheduler_rig_start(&rig);
        scheduler_rig_add(&rig, 1, 10, 200, 0);
        scheduler_rig_step(&rig);
        scheduler_rig_add(&rig, 50, 4000, 20, 0);
        double target_ms = slow > 1 ? 4 * 11 * slow : 100;
        for (uint32_t i = 0; i < 10; i++) {
            const struct mr_plan *plan = scheduler_rig_step(&rig);
            assert_int_equal(plan->decode_count, 1);
            assert_true(plan->predicted_ms <= 1.01 * target_ms);
            assert_true(plan->work.chunk >= 32);
        }
        scheduler_rig_end(&rig);
    }
}

/* On a machine where a prompt token takes a quarter of a step with one answer, a target of 4 such
 * steps leaves room for fewer tokens than the smallest chunk. */
static void the_automatic_target_holds_a_least_chunk(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.step_target_ms = MR_STEP_TARGET_AUTO;
    scheduler_rig_teach(&rig, 120, 10, 37);
    scheduler_rig_start(&rig);
    scheduler_rig_add(&rig, 1, 10, 200, 0);
    scheduler_rig_step(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 50, 2000, 20, 0);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(scheduler_rig_planned(scheduler_rig_step(&rig), sequence), 16);
    scheduler_rig_end(&rig);
}

/* Tokens of a long prompt alone in a step, which costs step_ms and 0.5 ms a token. */
static uint32_t chunk_alone(double target_ms, double step_ms)
{
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.step_target_ms = target_ms;
    scheduler_rig_teach(&rig, step_ms, 1, 0.5);
    scheduler_rig_start(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 50, 2000, 20, 0);
    uint32_t count = scheduler_rig_planned(scheduler_rig_step(&rig), sequence);
    scheduler_rig_end(&rig);
    return count;
}

static void a_prompt_alone_is_held_to_a_target_that_keeps_its_speed(void **state)
{
    (void)state;
    /* chunks of such lengths end on a multiple of a block, and of 64 where blocks are larger */
    const uint32_t part = MR_BLOCK_TOKENS < 64 ? MR_BLOCK_TOKENS : 64;
    /* a quarter of a second has room for 480 tokens */
    assert_int_equal(chunk_alone(MR_STEP_TARGET_AUTO, 10), 480 / part * part);
    /* 20 times the constant cost, 300 ms, for 570 */
    assert_int_equal(chunk_alone(MR_STEP_TARGET_AUTO, 15), 512);
    /* a target set by the operator may be shorter and slow prefill down: 200 ms, for 380 */
    assert_int_equal(chunk_alone(1, 10), 380 / part * part);
    assert_int_equal(chunk_alone(0, 10), 512); /* no target */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_end_on_blocks_or_parts_of_them),
        cmocka_unit_test(chunks_below_a_block_end_on_a_power_of_two),
        cmocka_unit_test(without_chunking_a_prompt_runs_whole),
        cmocka_unit_test(chunks_shrink_to_the_time_left_beside_decodes),
        cmocka_unit_test(the_automatic_target_follows_the_machine),
        cmocka_unit_test(the_automatic_target_holds_a_least_chunk),
        cmocka_unit_test(a_prompt_alone_is_held_to_a_target_that_keeps_its_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
