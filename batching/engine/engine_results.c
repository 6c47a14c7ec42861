/* Applies a collected step to its sequences: counts tokens, inserts computed blocks into the prefix
 * index, appends sampled tokens and ends choices. */
#include "batching/engine/engine_state.h"
#include "codec/check.h"

/* Inserts the full blocks that the step wrote into the prefix index, and the last block of a prompt
 * that the step finished. */
static void publish(const struct mr_sequence *sequence)
{
    if (!sequence->job->writes_cache || sequence->job->broken) return;
    uint32_t computed = mr_job_lasting_tokens(sequence->job, sequence->num_settled);
    bool prompt_end = computed == mr_job_lasting_tokens(sequence->job, sequence->prompt_tokens);
    bool block_end =
        computed / MR_BLOCK_TOKENS > sequence->table->published_tokens / MR_BLOCK_TOKENS;
    if (prompt_end || block_end)
        mr_kv_cache_publish(sequence->table, sequence->tokens, computed, prompt_end);
}

/* Settles the tokens that the step computed, unless the sequence was preempted since the launch. */
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
 * and drops its prompt's cached logits: they may be the non-finite ones. */
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

/* Applies the sample of a sequence, and the samples after its drafts as far as the drafts are
 * right. The KV of a right draft is the KV of the sampled token. */
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
        sequence->entry_due = engine->remote != NULL;
}

/* Records the scores of given tokens that a row of the step has computed. */
static void record_scores(struct mr_engine *engine, const struct mr_flight *flight,
                          const struct mr_flight_row *row)
{
    struct mr_sequence *sequence = row->sequence;
    const struct mr_sample *samples = &flight->samples[row->score_row];
    const uint32_t more = row->score_samples - row->score_count;
    for (uint32_t i = 0; i < row->score_samples; i++)
        if (samples[i].failed) mark_broken(engine, sequence->job);
    if (more > 0) mr_scores_put_heads(sequence->scores, samples, engine->texts);
    for (uint32_t i = more > 0; i < row->score_count; i++)
        mr_scores_put(sequence->scores, row->score_first + i, &samples[more + i], engine->texts);
}

static void apply_scores(struct mr_engine *engine, const struct mr_flight *flight)
{
    for (uint32_t i = 0; i < flight->row_count; i++)
        if (flight->rows[i].sequence != NULL && flight->rows[i].score_samples > 0)
            record_scores(engine, flight, &flight->rows[i]);
}

/* Adds the hidden states that the step has computed to the vectors of their prompts. */
static void apply_hidden(struct mr_engine *engine, const struct mr_flight *flight)
{
    const struct mr_model_port *model = &engine->options.model;
    for (uint32_t i = 0; i < flight->row_count; i++) {
        const struct mr_flight_row *row = &flight->rows[i];
        if (row->sequence == NULL || row->hidden_rows == 0) continue;
        struct mr_embedding *embedding = row->sequence->embedding;
        embedding->in_flight--;
        if (model->hidden(model->context, row->hidden_index, engine->hidden, NULL) != MR_OK ||
            !mr_embedding_add(embedding, engine->hidden, row->hidden_rows))
            mark_broken(engine, row->sequence->job);
    }
}

/* Starts the next continuation that has tokens to score, after the KV of the prompt. False:
 * there is none. */
static bool score_next(struct mr_engine *engine, struct mr_sequence *sequence)
{
    struct mr_job *job = sequence->job;
    if (job->broken || !mr_scores_next(sequence->scores)) return false;
    mr_job_set_continuation(job);
    sequence->computed_before = sequence->scores->first;
    mr_request_queue_charge(engine->queue, job->tenant_index,
                            (uint64_t)(sequence->num_tokens - sequence->scores->first) *
                                MR_PROMPT_TOKEN_COST);
    if (mr_kv_cache_can_go_back(sequence->table, sequence->scores->first))
        mr_sequence_restart(sequence, sequence->scores->first);
    else
        mr_scheduler_preempt(engine->scheduler, sequence);
    return true;
}

static void charge_text(struct mr_engine *engine, const struct mr_sequence *sequence)
{
    mr_request_queue_charge(engine->queue, sequence->job->tenant_index,
                            (uint64_t)sequence->num_tokens * MR_PROMPT_TOKEN_COST);
}

void mr_engine_start_text(struct mr_engine *engine, struct mr_sequence *sequence)
{
    charge_text(engine, sequence);
    mr_scheduler_park(engine->scheduler, sequence);
}

/* Sets the result of the text that the sequence has computed, and gives it the next one. False:
 * all texts have begun. */
static bool next_text(struct mr_engine *engine, struct mr_sequence *sequence)
{
    struct mr_job *job = sequence->job;
    if (job->texts == NULL || job->broken) return false;
    mr_text_set_finish(job->texts, sequence->text, sequence->embedding);
    if (job->texts->next == job->texts->count) return false;
    mr_scheduler_put_back(engine->scheduler, sequence);
    if (!mr_text_set_next(job->texts, sequence)) return false;
    charge_text(engine, sequence);
    return true;
}

/* Ends the requests that generate nothing and for which this step has computed all tokens. */
static void end_computed(struct mr_engine *engine, const struct mr_flight *flight, uint64_t now_ns)
{
    for (uint32_t i = 0; i < flight->row_count; i++) {
        struct mr_sequence *sequence = flight->rows[i].sequence;
        if (sequence == NULL || sequence->job->draws || sequence->state != MR_SEQUENCE_RUNNING ||
            sequence->num_settled < sequence->num_tokens)
            continue;
        enum mr_finish finish = sequence->job->broken ? MR_FINISH_ERROR : MR_FINISH_LENGTH;
        MR_ASSERT(mr_scores_done(sequence->scores));
        if (next_text(engine, sequence) || score_next(engine, sequence)) continue;
        mr_engine_end_sequence(engine, sequence, finish, now_ns);
    }
}

void mr_engine_apply_results(struct mr_engine *engine, struct mr_flight *flight, uint64_t now_ns)
{
    const struct mr_batch_builder *builder = flight->builder;
    engine->applied = flight;
    for (uint32_t i = 0; i < builder->sample_count; i++)
        if (builder->sampled[i] != NULL && flight->samples[i].failed)
            mark_broken(engine, builder->sampled[i]->job);
    apply_scores(engine, flight);
    apply_hidden(engine, flight);
    settle_rows(flight);
    for (uint32_t i = 0; i < flight->row_count; i++)
        cache_logits(engine, &flight->rows[i], now_ns);
    for (uint32_t i = 0; i < builder->sample_count; i++)
        if (builder->sampled[i] != NULL)
            apply_samples(engine, builder->sampled[i], &flight->samples[i], now_ns);
    end_computed(engine, flight, now_ns);
    engine->applied = NULL;
}
