/* What a collected step does to the sequences: counts tokens, inserts computed blocks into the
 * prefix index, appends sampled tokens and ends choices. */
#include "batching/engine_state.h"
#include "codec/check.h"

/* Inserts the full blocks that the step wrote into the prefix index, and the last block of a prompt
 * that the step finished. */
static void publish(const struct mr_sequence *sequence)
{
    if (!sequence->job->writes_cache || sequence->job->broken) return;
    uint32_t computed = sequence->num_settled;
    bool prompt_end = computed == sequence->prompt_tokens;
    bool block_end =
        computed / MR_BLOCK_TOKENS > sequence->table->published_tokens / MR_BLOCK_TOKENS;
    if (prompt_end || block_end)
        mr_kv_cache_publish(sequence->table, sequence->tokens, computed, prompt_end);
}

/* Settles what the step computed, unless the sequence was preempted meanwhile. */
static void settle_rows(const struct mr_flight *flight)
{
    for (uint32_t i = 0; i < flight->row_count; i++) {
        const struct mr_flight_row *row = &flight->rows[i];
        struct mr_sequence *sequence = row->sequence;
        if (sequence == NULL || row->token_count == 0) continue;
        if (sequence->preemptions != row->preemptions) continue;
        mr_sequence_settle(sequence, row->end);
        publish(sequence);
    }
}

static void record_time(struct mr_sequence *sequence, uint64_t now_ns)
{
    struct mr_job *job = sequence->job;
    if (job->first_token_ns == 0) job->first_token_ns = now_ns;
    if (sequence->last_token_ns != 0) {
        uint64_t gap_ns = now_ns - sequence->last_token_ns;
        job->gap_sum_ns += gap_ns;
        job->gap_count++;
        if (gap_ns > job->gap_max_ns) job->gap_max_ns = gap_ns;
    }
    sequence->last_token_ns = now_ns;
}

/* Marks a job for which no token could be drawn, before anything that this row computed is kept,
 * and drops its prompt's cached logits: they may be those that were not finite. */
static void mark_broken(struct mr_engine *engine, struct mr_job *job)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    unsigned char key[MR_HASH_BYTES];
    job->broken = true;
    if (engine->prompts == NULL) return;
    mr_kv_cache_prompt_key(engine->cache, job->root, sequence->tokens, sequence->prompt_tokens,
                           key);
    mr_prompt_cache_drop(engine->prompts, key);
}

/* False: the choice has ended, and the sequence may be gone. */
static bool apply_sample(struct mr_engine *engine, struct mr_sequence *sequence,
                         const struct mr_sample *sample, uint64_t now_ns)
{
    struct mr_job *job = sequence->job;
    if (job->broken) {
        mr_engine_end_sequence(engine, sequence, MR_FINISH_ERROR, now_ns);
        return false;
    }
    mr_sequence_append(sequence, sample->token_id);
    engine->stats.generated_tokens++;
    mr_request_queue_charge(engine->queue, job->tenant_index, MR_OUTPUT_TOKEN_COST);
    record_time(sequence, now_ns);
    struct mr_due due = {.sequence = sequence,
                         .sample = *sample,
                         .index = mr_sequence_generated(sequence) - sequence->unknown - 1,
                         .now_ns = now_ns};
    enum mr_finish finish =
        mr_completion_push(sequence->completion, sample, MR_FINISH_NONE, &due.delta);
    due.choice_ended = finish != MR_FINISH_NONE;
    if (due.choice_ended)
        mr_scheduler_remove(engine->scheduler, sequence, now_ns);
    else if (sequence->state == MR_SEQUENCE_WAITING)
        mr_scheduler_park(engine->scheduler, sequence);
    if (due.choice_ended) mr_engine_drop_rows(engine, sequence);
    due.job_ended = job->finished_count == job->choice_count;
    if (due.job_ended) mr_engine_detach_job(engine, job);
    mr_engine_add_due(engine, &due);
    return !due.choice_ended;
}

/* Applies the sample of a sequence, and those of the rows of its drafts as far as the drafts are
 * right. The KV of a right draft is that of the token sampled. */
static void apply_samples(struct mr_engine *engine, struct mr_sequence *sequence,
                          const struct mr_sample *samples, uint64_t now_ns)
{
    const uint32_t draft_count = sequence->draft_count; /* 0 after a preemption */
    sequence->draft_count = 0;
    bool goes_on = apply_sample(engine, sequence, &samples[0], now_ns);
    uint32_t right = 0;
    while (goes_on && right < draft_count && samples[right].token_id == sequence->drafts[right]) {
        struct mr_job *job = sequence->job;
        right++;
        job->accepted_draft_tokens++;
        engine->stats.accepted_draft_tokens++;
        mr_sequence_jump(sequence, sequence->num_tokens);
        if (samples[right].failed) mark_broken(engine, job);
        goes_on = apply_sample(engine, sequence, &samples[right], now_ns);
    }
    if (goes_on && right > 0) publish(sequence);
}

/* Puts the logits of a prompt that this step computed for the first time into the prompt cache. */
static void cache_logits(struct mr_engine *engine, const struct mr_flight_row *computed,
                         uint64_t now_ns)
{
    struct mr_sequence *sequence = computed->sequence;
    if (engine->prompts == NULL || computed->logit_row == UINT32_MAX || sequence == NULL) return;
    const struct mr_model_port *model = &engine->options.model;
    const struct mr_job *job = sequence->job;
    if (!job->writes_cache || job->broken) return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(engine->cache, job->root, sequence->tokens, sequence->prompt_tokens,
                           key);
    float *row = mr_prompt_cache_put(engine->prompts, key, now_ns);
    if (row == NULL) return;
    if (model->logits(model->context, computed->logit_row, row, NULL) != MR_OK)
        mr_prompt_cache_drop(engine->prompts, key);
    else
        sequence->entry_due = engine->shared != NULL;
}

/* Records the scores of given tokens that the step has computed. */
static void apply_scores(struct mr_engine *engine, const struct mr_flight *flight)
{
    for (uint32_t i = 0; i < flight->row_count; i++) {
        const struct mr_flight_row *row = &flight->rows[i];
        for (uint32_t k = 0; row->sequence != NULL && k < row->score_count; k++) {
            const struct mr_sample *sample = &flight->samples[row->score_row + k];
            if (sample->failed) mark_broken(engine, row->sequence->job);
            mr_scores_put(row->sequence->scores, row->score_first + k, sample, engine->texts);
        }
    }
}

/* Ends the requests that generate nothing and whose prompt this step has completed. */
static void end_computed(struct mr_engine *engine, struct mr_flight *flight, uint64_t now_ns)
{
    for (uint32_t i = 0; i < flight->row_count; i++) {
        struct mr_sequence *sequence = flight->rows[i].sequence;
        if (sequence == NULL || sequence->job->draws ||
            sequence->num_settled < sequence->num_tokens)
            continue;
        enum mr_finish finish = sequence->job->broken ? MR_FINISH_ERROR : MR_FINISH_LENGTH;
        MR_ASSERT(mr_scores_done(sequence->scores));
        flight->rows[i].sequence = NULL;
        mr_engine_end_sequence(engine, sequence, finish, now_ns);
    }
}

void mr_engine_apply_results(struct mr_engine *engine, struct mr_flight *flight, uint64_t now_ns)
{
    const struct mr_batch_builder *builder = flight->builder;
    for (uint32_t i = 0; i < builder->sample_count; i++)
        if (builder->sampled[i] != NULL && flight->samples[i].failed)
            mark_broken(engine, builder->sampled[i]->job);
    apply_scores(engine, flight);
    settle_rows(flight);
    for (uint32_t i = 0; i < flight->row_count; i++)
        cache_logits(engine, &flight->rows[i], now_ns);
    for (uint32_t i = 0; i < builder->sample_count; i++)
        if (builder->sampled[i] != NULL)
            apply_samples(engine, builder->sampled[i], &flight->samples[i], now_ns);
    end_computed(engine, flight, now_ns);
}
