#include "tests/fakes/scheduler_rig.h"

#include "codec/check.h"
#include "tests/fakes/fake_request.h"

#include <stdio.h>

#define CONTEXT_TOKENS 8192u

void scheduler_rig_init(struct scheduler_rig *rig)
{
    *rig = (struct scheduler_rig){.prefix_cache = true, .now_ns = 1000};
    rig->options = (struct mr_scheduler_options){.sequences_max = 8,
                                                 .rows_max = 4096,
                                                 .block_count = 16384 / MR_BLOCK_TOKENS,
                                                 .chunk_tokens = 512,
                                                 .prefills_max = 1,
                                                 .prefill_batch_max = 8,
                                                 .prefill_bytes_max = UINT64_MAX};
    mr_cost_model_init(&rig->cost);
}

void scheduler_rig_start(struct scheduler_rig *rig)
{
    struct mr_request_queue_options queue = {.count_max = 64, .bytes_max = UINT64_MAX};
    struct mr_kv_cache_options cache = {.block_count = rig->options.block_count,
                                        .sequence_tokens_max = CONTEXT_TOKENS,
                                        .sequences_max = rig->options.sequences_max,
                                        .prefix_cache = rig->prefix_cache};
    MR_ASSERT(mr_request_queue_create(&rig->options.queue, &queue, NULL) == MR_OK);
    MR_ASSERT(mr_kv_cache_create(&rig->options.cache, &cache, NULL) == MR_OK);
    rig->options.cost = &rig->cost;
    MR_ASSERT(mr_scheduler_create(&rig->scheduler, &rig->options, NULL) == MR_OK);
    rig->tokenizer = mr_fake_tokenizer();
    MR_ASSERT(mr_token_text_create(&rig->texts, rig->tokenizer, NULL) == MR_OK);
    rig->rules =
        (struct mr_job_rules){.completion = {.tokenizer = rig->tokenizer, .texts = rig->texts},
                              .vocab_size = MR_FAKE_VOCABULARY,
                              .context_tokens = CONTEXT_TOKENS,
                              .block_count = rig->options.block_count,
                              .prefix_cache = rig->prefix_cache};
}

struct mr_sequence *scheduler_rig_add(struct scheduler_rig *rig, uint32_t first, uint32_t count,
                                      uint32_t max_tokens, int32_t priority)
{
    char id[8];
    uint32_t tokens[CONTEXT_TOKENS];
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (first + i) % MR_FAKE_VOCABULARY;
    snprintf(id, sizeof id, "%u", rig->job_count);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->max_tokens = max_tokens;
    struct mr_submission submission = {.request = request,
                                       .ticket = rig->job_count,
                                       .arrival_ns = rig->now_ns++,
                                       .priority = priority};
    MR_ASSERT(rig->job_count < SCHEDULER_RIG_JOBS_MAX);
    struct mr_job **job = &rig->jobs[rig->job_count++];
    MR_ASSERT(mr_job_create(job, &rig->rules, &submission, NULL) == MR_OK);
    MR_ASSERT(mr_request_queue_enqueue(rig->options.queue, &(*job)->waiting) == MR_OK);
    return &(*job)->sequences[0];
}

const struct mr_plan *scheduler_rig_step(struct scheduler_rig *rig)
{
    const struct mr_plan *plan = mr_scheduler_plan(rig->scheduler, rig->now_ns++);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct mr_plan_row *row = &plan->rows[i];
        struct mr_sequence *sequence = row->sequence;
        if (sequence->match.copy_tokens > 0) mr_kv_cache_copied(sequence->table, &sequence->match);
        mr_sequence_advance(sequence, row->token_count - row->draft_count);
        sequence->draft_count = 0;
        mr_sequence_settle(sequence, sequence->num_computed);
        mr_kv_cache_publish(sequence->table, sequence->tokens, sequence->num_computed,
                            row->samples);
        if (row->samples && sequence->num_tokens < sequence->capacity)
            mr_sequence_append(sequence, 7);
    }
    mr_scheduler_check(rig->scheduler);
    mr_kv_cache_check(rig->options.cache);
    return plan;
}

uint32_t scheduler_rig_planned(const struct mr_plan *plan, const struct mr_sequence *sequence)
{
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (plan->rows[i].sequence == sequence) return plan->rows[i].token_count;
    return 0;
}

void scheduler_rig_teach(struct scheduler_rig *rig, double step_ms, double row_ms, double token_ms)
{
    for (uint32_t i = 0; i < 400; i++) {
        struct mr_step_work work = {.rows = i % 9, .chunk = (i * 37) % 500};
        work.history = work.rows * 100 + work.chunk * (i * 53 % 900);
        mr_cost_model_observe(&rig->cost, &work,
                              step_ms + row_ms * work.rows + token_ms * work.chunk);
    }
}

void scheduler_rig_end(struct scheduler_rig *rig)
{
    while (mr_request_queue_drain(rig->options.queue) != NULL)
        ;
    mr_scheduler_destroy(rig->scheduler);
    mr_kv_cache_check(rig->options.cache);
    MR_ASSERT(mr_kv_cache_stats(rig->options.cache).held_count == 0);
    for (uint32_t i = 0; i < rig->job_count; i++) {
        struct mr_request *request = rig->jobs[i]->request;
        mr_request_queue_release(rig->options.queue, &rig->jobs[i]->waiting);
        mr_job_destroy(rig->jobs[i]);
        mr_request_destroy(request);
    }
    mr_kv_cache_destroy(rig->options.cache);
    mr_request_queue_destroy(rig->options.queue);
    mr_token_text_destroy(rig->texts);
    mr_tokenizer_destroy(rig->tokenizer);
}
