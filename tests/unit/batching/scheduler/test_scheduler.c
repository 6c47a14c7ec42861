#include "batching/scheduler/scheduler.h"

#include "tests/fakes/scheduler_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

static void decode_rows_come_before_chunks(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.chunk_tokens = (int32_t)(2 * BLOCK);
    scheduler_rig_start(&rig);
    struct mr_sequence *first = scheduler_rig_add(&rig, 1, 10, 20, 0);
    scheduler_rig_step(&rig);
    struct mr_sequence *second = scheduler_rig_add(&rig, 100, 3 * BLOCK, 20, 10);
    const struct mr_plan *plan = scheduler_rig_step(&rig);
    assert_int_equal(plan->row_count, 2);
    assert_int_equal(plan->decode_count, 1);
    assert_ptr_equal(plan->rows[0].sequence, first);
    assert_true(plan->rows[0].decode && plan->rows[0].samples);
    assert_ptr_equal(plan->rows[1].sequence, second);
    assert_false(plan->rows[1].decode || plan->rows[1].samples);
    assert_int_equal(plan->work.rows, 1);
    assert_int_equal(plan->work.chunk, 2 * BLOCK);
    scheduler_rig_end(&rig);
}

static void a_step_never_has_more_rows_than_it_may(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.rows_max = 100;
    rig.options.prefills_max = 8;
    scheduler_rig_start(&rig);
    for (uint32_t i = 0; i < 6; i++)
        scheduler_rig_add(&rig, 40 * i, 70, 20, 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(scheduler_rig_step(&rig)->token_count <= 100);
    assert_int_equal(mr_scheduler_running(rig.scheduler), 6);
    assert_int_equal(mr_scheduler_prefilling(rig.scheduler), 0);
    scheduler_rig_end(&rig);
}

static void only_so_many_prompts_are_in_chunks_at_once(void **state)
{
    (void)state;
    for (uint32_t most = 1; most <= 3; most++) {
        struct scheduler_rig rig;
        scheduler_rig_init(&rig);
        rig.options.prefills_max = most;
        rig.options.chunk_tokens = (int32_t)(2 * BLOCK);
        scheduler_rig_start(&rig);
        for (uint32_t i = 0; i < 5; i++)
            scheduler_rig_add(&rig, 40 * i, 6 * BLOCK, 20, 0);
        for (uint32_t i = 0; i < 12; i++) {
            scheduler_rig_step(&rig);
            assert_true(mr_scheduler_prefilling(rig.scheduler) <= most);
        }
        scheduler_rig_end(&rig);
    }
}

static void prompts_in_chunks_share_the_step(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.prefills_max = 2;
    rig.options.chunk_tokens = (int32_t)(2 * BLOCK);
    scheduler_rig_start(&rig);
    struct mr_sequence *first = scheduler_rig_add(&rig, 1, 12 * BLOCK, 20, 0);
    scheduler_rig_step(&rig);
    struct mr_sequence *second = scheduler_rig_add(&rig, 100, 12 * BLOCK, 20, 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        assert_int_equal(scheduler_rig_planned(plan, first), BLOCK);
        assert_int_equal(scheduler_rig_planned(plan, second), BLOCK);
    }
    scheduler_rig_end(&rig);
}

/* Makes the scheduler expect short answers, so that admission predicts no further block. */
static void expect_short_answers(struct scheduler_rig *rig)
{
    for (uint32_t i = 0; i < 32; i++) {
        struct mr_sequence *sequence = scheduler_rig_add(rig, 1, 5, 500, 0);
        scheduler_rig_step(rig);
        mr_scheduler_remove(rig->scheduler, sequence, rig->now_ns);
    }
}

static void a_decode_without_a_block_preempts_the_least_of_the_lowest(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.block_count = 4;
    rig.prefix_cache = false;
    scheduler_rig_start(&rig);
    expect_short_answers(&rig);
    struct mr_sequence *grows = scheduler_rig_add(&rig, 1, BLOCK - 2, 12, 0);
    struct mr_sequence *high = scheduler_rig_add(&rig, 30, 3, 12, 10);
    struct mr_sequence *low = scheduler_rig_add(&rig, 60, 5, 12, -10);
    struct mr_sequence *lowest = scheduler_rig_add(&rig, 90, 4, 12, -10);
    uint32_t preempted = 0;
    for (uint32_t i = 0; i < 6 && preempted == 0; i++)
        preempted = scheduler_rig_step(&rig)->preempted_count;
    assert_int_equal(preempted, 1);
    assert_int_equal(lowest->state, MR_SEQUENCE_PREEMPTED);
    assert_int_equal(lowest->num_computed, 0);
    assert_true(lowest->num_tokens > 4);
    assert_null(lowest->table);
    assert_int_equal(grows->table->block_count, 2);
    assert_int_equal(high->state, MR_SEQUENCE_RUNNING);
    assert_int_equal(low->state, MR_SEQUENCE_RUNNING);
    mr_scheduler_remove(rig.scheduler, grows, rig.now_ns);
    assert_true(scheduler_rig_planned(scheduler_rig_step(&rig), lowest) > 4);
    scheduler_rig_end(&rig);
}

static void a_sequence_alone_with_a_full_pool_is_exhausted(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.block_count = 1;
    scheduler_rig_start(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 1, BLOCK - 1, 20, 0);
    scheduler_rig_step(&rig);
    assert_int_equal(scheduler_rig_step(&rig)->row_count, 1);
    const struct mr_plan *plan = scheduler_rig_step(&rig);
    assert_int_equal(plan->row_count, 0);
    assert_int_equal(plan->exhausted_count, 1);
    assert_ptr_equal(plan->exhausted[0], sequence);
    mr_scheduler_remove(rig.scheduler, sequence, rig.now_ns);
    scheduler_rig_end(&rig);
}

/* Prefill gets a quantum in one of every MR_STARVED_STEPS_MAX steps, however long the decodes take.
 */
static void decodes_over_the_target_cannot_starve_a_prompt(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.step_target_ms = 5;
    scheduler_rig_teach(&rig, 10, 1, 0.5);
    scheduler_rig_start(&rig);
    scheduler_rig_add(&rig, 1, 10, 2000, 0);
    scheduler_rig_step(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 50, 1000, 20, 0);
    uint32_t without = 0, steps = 0;
    for (; mr_sequence_needs_prefill(sequence); steps++) {
        uint32_t count = scheduler_rig_planned(scheduler_rig_step(&rig), sequence);
        assert_true(count == 0 || count >= 16 || !mr_sequence_needs_prefill(sequence));
        without = count == 0 ? without + 1 : 0;
        assert_true(without < MR_STARVED_STEPS_MAX);
        assert_true(steps < 4 * 70);
    }
    assert_true(steps > 100);
    scheduler_rig_end(&rig);
}

/* A machine that takes 37 ms for a prompt token. The cost model sees only the times of steps: first
 * one answer, then prompts with four answers. */
static void a_slow_machine_keeps_to_its_target_from_the_start_on(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    double longest_ms = 0;
    scheduler_rig_init(&rig);
    rig.options.step_target_ms = MR_STEP_TARGET_AUTO;
    scheduler_rig_start(&rig);
    scheduler_rig_add(&rig, 1, 300, 1000, 0);
    for (uint32_t i = 0; i < 500; i++) {
        if (i >= 60 && i < 64) scheduler_rig_add(&rig, 10 * i, 100, 1000, 0);
        if (i >= 150 && i % 100 == 50) scheduler_rig_add(&rig, 7 * i, 600, 1000, 0);
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        double decodes_ms = 120 + 10.0 * plan->work.rows;
        double ms = decodes_ms + 37.0 * plan->work.chunk + 4e-5 * (double)plan->work.history;
        if (i >= 150)
            longest_ms = fmax(longest_ms, ms / fmax(4 * decodes_ms, decodes_ms + 24 * 37.0));
        mr_cost_model_observe(&rig.cost, &plan->work, ms);
    }
    assert_true(longest_ms < 1.25);
    scheduler_rig_end(&rig);
}

/* Decodes take 11 ms of 15, which leaves 8 tokens: too few for the prompt, but enough for a request
 * with one uncached prompt token. Whenever one of the cached requests has ended, the next one is
 * submitted. */
static void short_requests_that_start_cannot_starve_a_prompt(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    scheduler_rig_init(&rig);
    rig.options.step_target_ms = 15;
    scheduler_rig_teach(&rig, 10, 1, 0.5);
    scheduler_rig_start(&rig);
    struct mr_sequence *cached = scheduler_rig_add(&rig, 300, 64, 1, 0);
    scheduler_rig_step(&rig);
    mr_scheduler_remove(rig.scheduler, cached, rig.now_ns);
    scheduler_rig_add(&rig, 1, 10, 2000, 0);
    scheduler_rig_step(&rig);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 50, 120, 20, 0);
    uint32_t without = 0, starts = 0;
    for (uint32_t steps = 0; mr_sequence_needs_prefill(sequence); steps++) {
        if (steps == 0 || cached->state == MR_SEQUENCE_FINISHED)
            cached = scheduler_rig_add(&rig, 300, 64, 1, 0);
        uint32_t count = scheduler_rig_planned(scheduler_rig_step(&rig), sequence);
        if (cached->state == MR_SEQUENCE_RUNNING) {
            mr_scheduler_remove(rig.scheduler, cached, rig.now_ns);
            starts++;
        }
        without = count == 0 ? without + 1 : 0;
        assert_true(without < MR_STARVED_STEPS_MAX);
        assert_true(steps < 4 * 10);
    }
    assert_true(starts > 10);
    scheduler_rig_end(&rig);
}

static void invalid_options_are_refused(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    struct mr_error err = {0};
    scheduler_rig_init(&rig);
    rig.options.rows_max = 8;
    assert_int_equal(mr_scheduler_create(&rig.scheduler, &rig.options, &err), MR_BAD_CONFIG);
    scheduler_rig_init(&rig);
    rig.options.sequences_max = 0;
    assert_int_equal(mr_scheduler_create(&rig.scheduler, &rig.options, &err), MR_BAD_CONFIG);
    assert_null(rig.scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_rows_come_before_chunks),
        cmocka_unit_test(a_step_never_has_more_rows_than_it_may),
        cmocka_unit_test(only_so_many_prompts_are_in_chunks_at_once),
        cmocka_unit_test(prompts_in_chunks_share_the_step),
        cmocka_unit_test(a_decode_without_a_block_preempts_the_least_of_the_lowest),
        cmocka_unit_test(a_sequence_alone_with_a_full_pool_is_exhausted),
        cmocka_unit_test(decodes_over_the_target_cannot_starve_a_prompt),
        cmocka_unit_test(short_requests_that_start_cannot_starve_a_prompt),
        cmocka_unit_test(a_slow_machine_keeps_to_its_target_from_the_start_on),
        cmocka_unit_test(invalid_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
