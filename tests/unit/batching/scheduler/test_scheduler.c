#include "batching/scheduler/scheduler.h"

#include "tests/fakes/fake_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK    MR_BLOCK_TOKENS
#define JOBS_MAX 48u

/* A scheduler with all it needs but a model: plans are carried out on paper. */
struct desk {
    struct mr_scheduler_options options;
    struct mr_tokenizer *tokenizer;
    struct mr_token_text *texts;
    struct mr_job_rules rules;
    struct mr_cost_model cost;
    struct mr_scheduler *scheduler;
    struct mr_job *jobs[JOBS_MAX];
    uint32_t job_count;
    bool prefix_cache;
    uint64_t now_ns;
};

static void desk_init(struct desk *desk)
{
    *desk = (struct desk){.prefix_cache = true, .now_ns = 1000};
    desk->options = (struct mr_scheduler_options){.sequences_max = 8,
                                                  .rows_max = 4096,
                                                  .block_count = 16384 / BLOCK,
                                                  .chunk_tokens = 512,
                                                  .prefills_max = 1,
                                                  .prefill_batch_max = 8,
                                                  .prefill_bytes_max = UINT64_MAX};
    mr_cost_model_init(&desk->cost);
}

static void desk_start(struct desk *desk)
{
    struct mr_error err = {0};
    struct mr_request_queue_options queue = {.count_max = 64, .bytes_max = UINT64_MAX};
    struct mr_kv_cache_options cache = {.block_count = desk->options.block_count,
                                        .sequence_tokens_max = 8192,
                                        .sequences_max = desk->options.sequences_max,
                                        .prefix_cache = desk->prefix_cache};
    assert_int_equal(mr_request_queue_create(&desk->options.queue, &queue, &err), MR_OK);
    assert_int_equal(mr_kv_cache_create(&desk->options.cache, &cache, &err), MR_OK);
    desk->options.cost = &desk->cost;
    assert_int_equal(mr_scheduler_create(&desk->scheduler, &desk->options, &err), MR_OK);
    desk->tokenizer = mr_fake_tokenizer();
    assert_int_equal(mr_token_text_create(&desk->texts, desk->tokenizer, &err), MR_OK);
    desk->rules =
        (struct mr_job_rules){.completion = {.tokenizer = desk->tokenizer, .texts = desk->texts},
                              .vocab_size = MR_FAKE_VOCABULARY,
                              .context_tokens = 8192,
                              .block_count = desk->options.block_count};
}

/* first: token ids start here, so equal values share a prefix. */
static struct mr_sequence *add(struct desk *desk, uint32_t first, uint32_t count,
                               uint32_t max_tokens, int32_t priority)
{
    char id[8];
    uint32_t tokens[8192];
    struct mr_error err = {0};
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (first + i) % MR_FAKE_VOCABULARY;
    snprintf(id, sizeof id, "%u", desk->job_count);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->max_tokens = max_tokens;
    struct mr_job_origin origin = {
        .ticket = desk->job_count, .arrival_ns = desk->now_ns++, .priority = priority};
    struct mr_job **job = &desk->jobs[desk->job_count++];
    assert_int_equal(mr_job_create(job, &desk->rules, request, &origin, &err), MR_OK);
    assert_int_equal(mr_request_queue_enqueue(desk->options.queue, &(*job)->waiting), MR_OK);
    return &(*job)->sequences[0];
}

/* Plans a step and does what the engine would: every row computed, every end of known tokens gets
 * one more token. */
static const struct mr_plan *turn(struct desk *desk)
{
    const struct mr_plan *plan = mr_scheduler_plan(desk->scheduler, desk->now_ns++);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct mr_plan_row *row = &plan->rows[i];
        struct mr_sequence *sequence = row->sequence;
        if (sequence->match.copy_tokens > 0) mr_kv_cache_copied(sequence->table, &sequence->match);
        mr_sequence_advance(sequence, row->token_count);
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed,
                            row->samples);
        if (row->samples && sequence->num_tokens < sequence->capacity)
            mr_sequence_append(sequence, 7);
    }
    mr_scheduler_check(desk->scheduler);
    mr_kv_cache_check(desk->options.cache);
    return plan;
}

static uint32_t planned(const struct mr_plan *plan, const struct mr_sequence *sequence)
{
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (plan->rows[i].sequence == sequence) return plan->rows[i].token_count;
    return 0;
}

static void desk_end(struct desk *desk)
{
    while (mr_request_queue_drain(desk->options.queue) != NULL)
        ;
    mr_scheduler_destroy(desk->scheduler);
    mr_kv_cache_check(desk->options.cache);
    assert_int_equal(mr_kv_cache_stats(desk->options.cache).held_count, 0);
    for (uint32_t i = 0; i < desk->job_count; i++) {
        struct mr_request *request = desk->jobs[i]->request;
        mr_job_destroy(desk->jobs[i]);
        mr_request_destroy(request);
    }
    mr_kv_cache_destroy(desk->options.cache);
    mr_request_queue_destroy(desk->options.queue);
    mr_token_text_destroy(desk->texts);
    mr_tokenizer_destroy(desk->tokenizer);
}

static void decode_rows_come_before_chunks(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.chunk_tokens = (int32_t)(2 * BLOCK);
    desk_start(&desk);
    struct mr_sequence *first = add(&desk, 1, 10, 20, 0);
    turn(&desk);
    struct mr_sequence *second = add(&desk, 100, 3 * BLOCK, 20, 10);
    const struct mr_plan *plan = turn(&desk);
    assert_int_equal(plan->row_count, 2);
    assert_int_equal(plan->decode_count, 1);
    assert_ptr_equal(plan->rows[0].sequence, first);
    assert_true(plan->rows[0].decode && plan->rows[0].samples);
    assert_ptr_equal(plan->rows[1].sequence, second);
    assert_false(plan->rows[1].decode || plan->rows[1].samples);
    assert_int_equal(plan->work.rows, 1);
    assert_int_equal(plan->work.chunk, 2 * BLOCK);
    desk_end(&desk);
}

static void chunks_end_on_blocks_but_at_the_end(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.chunk_tokens = (int32_t)(2 * BLOCK + BLOCK / 2);
    desk_start(&desk);
    struct mr_sequence *sequence = add(&desk, 1, 5 * BLOCK + 3, 20, 0);
    assert_int_equal(planned(turn(&desk), sequence), 2 * BLOCK);
    assert_int_equal(planned(turn(&desk), sequence), 2 * BLOCK);
    const struct mr_plan *plan = turn(&desk);
    assert_int_equal(planned(plan, sequence), BLOCK + 3);
    assert_true(plan->rows[0].samples);
    desk_end(&desk);
}

static void chunks_below_a_block_end_on_a_power_of_two(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.chunk_tokens = 13;
    desk_start(&desk);
    struct mr_sequence *sequence = add(&desk, 1, 200, 20, 0);
    for (uint32_t i = 0; i < 8; i++) {
        turn(&desk);
        assert_int_equal(sequence->num_computed % 8, 0);
        assert_true(sequence->num_computed >= 8 * (i + 1));
    }
    desk_end(&desk);
}

static void without_chunking_a_prompt_runs_whole(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.chunk_tokens = 0;
    desk.options.step_target_ms = 1;
    desk_start(&desk);
    struct mr_sequence *sequence = add(&desk, 1, 4000, 20, 0);
    assert_int_equal(planned(turn(&desk), sequence), 4000);
    desk_end(&desk);
}

static void a_step_never_has_more_rows_than_it_may(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.rows_max = 100;
    desk.options.prefills_max = 8;
    desk_start(&desk);
    for (uint32_t i = 0; i < 6; i++)
        add(&desk, 40 * i, 70, 20, 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(turn(&desk)->token_count <= 100);
    assert_int_equal(mr_scheduler_running(desk.scheduler), 6);
    assert_int_equal(mr_scheduler_prefilling(desk.scheduler), 0);
    desk_end(&desk);
}

static void only_so_many_prompts_are_in_chunks_at_once(void **state)
{
    (void)state;
    for (uint32_t most = 1; most <= 3; most++) {
        struct desk desk;
        desk_init(&desk);
        desk.options.prefills_max = most;
        desk.options.chunk_tokens = (int32_t)(2 * BLOCK);
        desk_start(&desk);
        for (uint32_t i = 0; i < 5; i++)
            add(&desk, 40 * i, 6 * BLOCK, 20, 0);
        for (uint32_t i = 0; i < 12; i++) {
            turn(&desk);
            assert_true(mr_scheduler_prefilling(desk.scheduler) <= most);
        }
        desk_end(&desk);
    }
}

static void prompts_in_chunks_share_the_step(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.prefills_max = 2;
    desk.options.chunk_tokens = (int32_t)(2 * BLOCK);
    desk_start(&desk);
    struct mr_sequence *first = add(&desk, 1, 12 * BLOCK, 20, 0);
    turn(&desk);
    struct mr_sequence *second = add(&desk, 100, 12 * BLOCK, 20, 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mr_plan *plan = turn(&desk);
        assert_int_equal(planned(plan, first), BLOCK);
        assert_int_equal(planned(plan, second), BLOCK);
    }
    desk_end(&desk);
}

static void prefills_that_start_together_are_bounded(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.prefill_batch_max = 3;
    desk_start(&desk);
    for (uint32_t i = 0; i < 5; i++)
        add(&desk, 40 * i, 10, 20, 0);
    assert_int_equal(turn(&desk)->row_count, 3);
    assert_int_equal(turn(&desk)->row_count, 5);
    desk_end(&desk);
    desk_init(&desk);
    desk.options.geometry = (struct mr_memory_geometry){.kv_bytes_per_token = 10};
    desk.options.prefill_bytes_max = 20 * BLOCK;
    desk_start(&desk);
    for (uint32_t i = 0; i < 5; i++)
        add(&desk, 40 * i, 10, 20, 0);
    assert_int_equal(turn(&desk)->row_count, 2);
    desk_end(&desk);
}

static void twins_wait_for_the_first_to_compute_their_prefix(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk_start(&desk);
    struct mr_sequence *first = add(&desk, 1, 100, 20, 0);
    struct mr_sequence *twin = add(&desk, 1, 110, 20, 0);
    struct mr_sequence *other = add(&desk, 90, 100, 20, 0);
    const struct mr_plan *plan = turn(&desk);
    assert_int_equal(planned(plan, first), 100);
    assert_int_equal(planned(plan, twin), 0);
    assert_int_equal(planned(plan, other), 100);
    assert_int_equal(planned(turn(&desk), twin), 10);
    desk_end(&desk);
}

static void what_does_not_fit_is_passed_over_but_not_for_ever(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.block_count = 12;
    desk.prefix_cache = false;
    desk_start(&desk);
    struct mr_sequence *keeper = add(&desk, 1, 4 * BLOCK, 8 * BLOCK, 0);
    turn(&desk);
    turn(&desk);
    struct mr_sequence *large = add(&desk, 50, 9 * BLOCK, 4, 0);
    uint32_t passed = 0;
    for (uint32_t round = 0; round < 20; round++) {
        struct mr_sequence *small = add(&desk, 20 * round, 10, 4, 0);
        const struct mr_plan *plan = turn(&desk);
        assert_int_equal(planned(plan, large), 0);
        if (planned(plan, small) == 0) break;
        passed++;
        mr_scheduler_leave(desk.scheduler, small, desk.now_ns);
    }
    assert_true(passed > 8);
    large->skipped = MR_SKIPS_MAX;
    struct mr_sequence *small = add(&desk, 3, 10, 4, 0);
    assert_int_equal(planned(turn(&desk), small), 0);
    mr_scheduler_leave(desk.scheduler, keeper, desk.now_ns);
    assert_true(planned(turn(&desk), large) > 0);
    desk_end(&desk);
}

/* So that all are let in: what is expected of each stays within its block. */
static void expect_short_answers(struct desk *desk)
{
    for (uint32_t i = 0; i < 32; i++) {
        struct mr_sequence *sequence = add(desk, 1, 5, 500, 0);
        turn(desk);
        mr_scheduler_leave(desk->scheduler, sequence, desk->now_ns);
    }
}

static void a_decode_without_a_block_preempts_the_least_of_the_lowest(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.block_count = 4;
    desk.prefix_cache = false;
    desk_start(&desk);
    expect_short_answers(&desk);
    struct mr_sequence *grows = add(&desk, 1, BLOCK - 2, 12, 0);
    struct mr_sequence *high = add(&desk, 30, 3, 12, 10);
    struct mr_sequence *low = add(&desk, 60, 5, 12, -10);
    struct mr_sequence *lowest = add(&desk, 90, 4, 12, -10);
    uint32_t preempted = 0;
    for (uint32_t i = 0; i < 6 && preempted == 0; i++)
        preempted = turn(&desk)->preempted_count;
    assert_int_equal(preempted, 1);
    assert_int_equal(lowest->state, MR_SEQUENCE_PREEMPTED);
    assert_int_equal(lowest->num_computed, 0);
    assert_true(lowest->num_tokens > 4);
    assert_null(lowest->table);
    assert_int_equal(grows->table->block_count, 2);
    assert_int_equal(high->state, MR_SEQUENCE_RUNNING);
    assert_int_equal(low->state, MR_SEQUENCE_RUNNING);
    mr_scheduler_leave(desk.scheduler, grows, desk.now_ns);
    assert_true(planned(turn(&desk), lowest) > 4);
    desk_end(&desk);
}

static void a_sequence_alone_with_a_full_pool_is_exhausted(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.block_count = 1;
    desk_start(&desk);
    struct mr_sequence *sequence = add(&desk, 1, BLOCK - 1, 20, 0);
    turn(&desk);
    assert_int_equal(turn(&desk)->row_count, 1);
    const struct mr_plan *plan = turn(&desk);
    assert_int_equal(plan->row_count, 0);
    assert_int_equal(plan->exhausted_count, 1);
    assert_ptr_equal(plan->exhausted[0], sequence);
    mr_scheduler_leave(desk.scheduler, sequence, desk.now_ns);
    desk_end(&desk);
}

static void teach(struct mr_cost_model *cost, double step_ms, double row_ms, double token_ms)
{
    for (uint32_t i = 0; i < 400; i++) {
        struct mr_step_work work = {.rows = i % 9, .chunk = (i * 37) % 500};
        work.history = work.rows * 100 + work.chunk * (i * 53 % 900);
        mr_cost_model_observe(cost, &work, step_ms + row_ms * work.rows + token_ms * work.chunk);
    }
}

static void chunks_shrink_to_the_time_left_beside_decodes(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.step_target_ms = 40;
    teach(&desk.cost, 10, 1, 0.5);
    desk_start(&desk);
    add(&desk, 1, 10, 200, 0);
    turn(&desk);
    struct mr_sequence *sequence = add(&desk, 50, 2000, 20, 0);
    for (uint32_t i = 0; i < 10; i++) {
        const struct mr_plan *plan = turn(&desk);
        assert_in_range(planned(plan, sequence), 16, 58);
        assert_true(plan->predicted_ms <= 40.0);
    }
    desk_end(&desk);
}

static void a_prompt_alone_is_not_held_back_by_the_target(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.step_target_ms = 1;
    teach(&desk.cost, 10, 1, 0.5);
    desk_start(&desk);
    struct mr_sequence *sequence = add(&desk, 50, 2000, 20, 0);
    assert_int_equal(planned(turn(&desk), sequence), 512);
    desk_end(&desk);
}

/* The stated bound: one quantum in every MR_STARVED_STEPS_MAX steps, however busy the decodes. */
static void decodes_over_the_target_cannot_starve_a_prompt(void **state)
{
    (void)state;
    struct desk desk;
    desk_init(&desk);
    desk.options.step_target_ms = 5;
    teach(&desk.cost, 10, 1, 0.5);
    desk_start(&desk);
    add(&desk, 1, 10, 2000, 0);
    turn(&desk);
    struct mr_sequence *sequence = add(&desk, 50, 1000, 20, 0);
    uint32_t without = 0, steps = 0;
    for (; mr_sequence_needs_prefill(sequence); steps++) {
        uint32_t count = planned(turn(&desk), sequence);
        assert_true(count == 0 || count >= 16 || !mr_sequence_needs_prefill(sequence));
        without = count == 0 ? without + 1 : 0;
        assert_true(without < MR_STARVED_STEPS_MAX);
        assert_true(steps < 4 * 70);
    }
    assert_true(steps > 100);
    desk_end(&desk);
}

static void nonsense_options_are_refused(void **state)
{
    (void)state;
    struct desk desk;
    struct mr_error err = {0};
    desk_init(&desk);
    desk.options.rows_max = 8;
    assert_int_equal(mr_scheduler_create(&desk.scheduler, &desk.options, &err), MR_BAD_CONFIG);
    desk_init(&desk);
    desk.options.sequences_max = 0;
    assert_int_equal(mr_scheduler_create(&desk.scheduler, &desk.options, &err), MR_BAD_CONFIG);
    assert_null(desk.scheduler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_rows_come_before_chunks),
        cmocka_unit_test(chunks_end_on_blocks_but_at_the_end),
        cmocka_unit_test(chunks_below_a_block_end_on_a_power_of_two),
        cmocka_unit_test(without_chunking_a_prompt_runs_whole),
        cmocka_unit_test(a_step_never_has_more_rows_than_it_may),
        cmocka_unit_test(only_so_many_prompts_are_in_chunks_at_once),
        cmocka_unit_test(prompts_in_chunks_share_the_step),
        cmocka_unit_test(prefills_that_start_together_are_bounded),
        cmocka_unit_test(twins_wait_for_the_first_to_compute_their_prefix),
        cmocka_unit_test(what_does_not_fit_is_passed_over_but_not_for_ever),
        cmocka_unit_test(a_decode_without_a_block_preempts_the_least_of_the_lowest),
        cmocka_unit_test(a_sequence_alone_with_a_full_pool_is_exhausted),
        cmocka_unit_test(chunks_shrink_to_the_time_left_beside_decodes),
        cmocka_unit_test(a_prompt_alone_is_not_held_back_by_the_target),
        cmocka_unit_test(decodes_over_the_target_cannot_starve_a_prompt),
        cmocka_unit_test(nonsense_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
