#include "batching/scheduler/speculate.h"

#include "tests/fakes/scheduler_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK     MR_BLOCK_TOKENS
#define ANSWER    7u /* the rig's only token, so that answers repeat themselves */
#define SEQUENCES 4u
#define BLOCKS    (16384u / BLOCK)

/* A scheduler that speculates, with steps of target_ms, on a machine where a step takes 10 ms and
 * row_ms for each row. */
static void start_for(struct scheduler_rig *rig, uint32_t draft_rows_max, double row_ms,
                      double target_ms, uint32_t block_count)
{
    scheduler_rig_init(rig);
    rig->options.block_count = block_count;
    rig->options.draft_rows_max = draft_rows_max;
    rig->options.step_target_ms = target_ms;
    scheduler_rig_teach(rig, 10, row_ms, 0.1);
    scheduler_rig_start(rig);
    rig->rules.speculates = true;
}

static void start(struct scheduler_rig *rig, uint32_t draft_rows_max, double row_ms)
{
    start_for(rig, draft_rows_max, row_ms, 0, BLOCKS);
}

static uint32_t drafts_of(const struct mr_plan *plan)
{
    uint32_t drafts = 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        drafts += plan->rows[i].draft_count;
    return drafts;
}

static uint32_t max_of(uint32_t left, uint32_t right)
{
    return left > right ? left : right;
}

/* Tokens that the sequence's blocks have room for. */
static uint32_t room_of(const struct mr_sequence *sequence)
{
    return mr_blocks_for(sequence->num_tokens) * BLOCK - sequence->num_tokens;
}

static uint32_t drafts_in_steps(struct scheduler_rig *rig, uint32_t steps)
{
    uint32_t drafts = 0;
    for (uint32_t i = 0; i < steps; i++)
        drafts += drafts_of(scheduler_rig_step(rig));
    return drafts;
}

static void an_answer_that_repeats_itself_gets_drafts(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start(&rig, 8, 0.01);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 20, 30, 100, 0);
    assert_int_equal(drafts_in_steps(&rig, 3), 0); /* the prompt, and two tokens of the answer */
    (void)drafts_in_steps(&rig, 10);
    uint32_t known = sequence->num_tokens, room = room_of(sequence);
    uint32_t drafts = room < 8 ? room : 8;
    const struct mr_plan *plan = mr_scheduler_plan(rig.scheduler, rig.now_ns++);
    assert_true(drafts > 0);
    assert_int_equal(plan->row_count, 1);
    assert_int_equal(plan->rows[0].draft_count, drafts);
    assert_int_equal(plan->rows[0].token_count, 1 + drafts);
    assert_int_equal(plan->token_count, 1 + drafts);
    assert_int_equal(plan->work.rows, 1 + drafts);
    assert_int_equal(sequence->draft_count, drafts);
    for (uint32_t i = 0; i < drafts; i++) {
        assert_int_equal(sequence->drafts[i], ANSWER);
        assert_int_equal(sequence->tokens[known + i], ANSWER);
    }
    scheduler_rig_end(&rig);
}

static void rows_that_cost_as_much_as_they_yield_get_no_drafts(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start(&rig, 8, 100);
    scheduler_rig_add(&rig, 20, 30, 100, 0);
    assert_int_equal(drafts_in_steps(&rig, 40), 0);
    scheduler_rig_end(&rig);
}

/* Rows of 1 ms: a target of 50 ms leaves 39 ms after the decode row; drafts may use a quarter of
 * it. */
static void prompts_leave_drafts_a_quarter_of_the_time(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start_for(&rig, 32, 1, 50, BLOCKS);
    scheduler_rig_add(&rig, 20, 30, 150, 0);
    uint32_t alone = 0, beside = 0, steps = 0;
    for (uint32_t i = 0; i < 20; i++)
        alone = max_of(alone, drafts_of(scheduler_rig_step(&rig)));
    const struct mr_sequence *prompt = scheduler_rig_add(&rig, 400, 2000, 10, 0);
    for (; steps < 100 && prompt->num_computed < 1900; steps++)
        beside = max_of(beside, drafts_of(scheduler_rig_step(&rig)));
    assert_true(steps < 100);
    assert_in_range(beside, 1, 9);
    assert_true(alone > 12);
    scheduler_rig_end(&rig);
}

/* The pool has no blocks for the waiting prompt, so no step could compute its tokens. */
static void a_prompt_that_finds_no_blocks_takes_no_time_from_drafts(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    const uint32_t blocks = mr_blocks_for(30 + 150);
    start_for(&rig, 32, 1, 50, blocks);
    scheduler_rig_add(&rig, 20, 30, 150, 0);
    uint32_t most = 0;
    (void)drafts_in_steps(&rig, 10);
    const struct mr_sequence *prompt = scheduler_rig_add(&rig, 400, blocks * BLOCK, 10, 0);
    for (uint32_t i = 0; i < 20; i++)
        most = max_of(most, drafts_of(scheduler_rig_step(&rig)));
    assert_int_equal(prompt->state, MR_SEQUENCE_WAITING);
    assert_true(most > 12);
    scheduler_rig_end(&rig);
}

static void without_draft_rows_there_are_no_drafts(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start(&rig, 0, 0.01);
    scheduler_rig_add(&rig, 20, 30, 100, 0);
    assert_int_equal(drafts_in_steps(&rig, 40), 0);
    scheduler_rig_end(&rig);
}

static void the_sequences_of_a_step_share_its_draft_rows(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start(&rig, 12, 0.01);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        scheduler_rig_add(&rig, 20 + 50 * i, 30, 100, 0);
    uint32_t most = 0;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t drafts = drafts_of(scheduler_rig_step(&rig));
        most = drafts > most ? drafts : most;
    }
    assert_int_equal(most, 12);
    scheduler_rig_end(&rig);
}

static void drafts_stay_in_the_blocks_of_the_sequence(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start(&rig, 32, 0.01);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 20, 2 * BLOCK - 10, 100, 0);
    uint32_t full = 0;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t room = room_of(sequence);
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        assert_int_equal(plan->row_count, 1);
        assert_in_range(plan->rows[0].draft_count, 0, room);
        full += plan->rows[0].draft_count > 0 && plan->rows[0].draft_count == room;
    }
    assert_true(full > 0); /* the block was the limit */
    scheduler_rig_end(&rig);
}

static void drafts_leave_a_token_to_sample(void **state)
{
    (void)state;
    struct scheduler_rig rig;
    start(&rig, 32, 0.01);
    struct mr_sequence *sequence = scheduler_rig_add(&rig, 20, 30, 20, 0);
    uint32_t drafts = 0;
    while (sequence->num_tokens < sequence->capacity) {
        uint32_t left = sequence->capacity - sequence->num_tokens;
        const struct mr_plan *plan = scheduler_rig_step(&rig);
        assert_in_range(plan->rows[0].draft_count, 0, left - 1);
        drafts += plan->rows[0].draft_count;
    }
    assert_true(drafts > 0);
    scheduler_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_repeats_itself_gets_drafts),
        cmocka_unit_test(rows_that_cost_as_much_as_they_yield_get_no_drafts),
        cmocka_unit_test(prompts_leave_drafts_a_quarter_of_the_time),
        cmocka_unit_test(a_prompt_that_finds_no_blocks_takes_no_time_from_drafts),
        cmocka_unit_test(without_draft_rows_there_are_no_drafts),
        cmocka_unit_test(the_sequences_of_a_step_share_its_draft_rows),
        cmocka_unit_test(drafts_stay_in_the_blocks_of_the_sequence),
        cmocka_unit_test(drafts_leave_a_token_to_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
