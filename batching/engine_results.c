/* What the engine does after a step: counts tokens, inserts computed blocks into the prefix index,
 * emits text, and reports ended requests. */
#include "batching/cache/shared_load.h"
#include "batching/engine_state.h"
#include "codec/check.h"

static double milliseconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

/* ended: the choice has ended. A resumed job that ends without a new token emits an empty delta, so
 * that a reader learns where the job resumed. */
static void emit(struct mr_engine *engine, const struct mr_sequence *sequence,
                 const struct mr_completion_delta *delta, bool ended)
{
    struct mr_job *job = sequence->job;
    bool is_empty = delta->token_count == 0 && delta->text.length == 0;
    if (engine->sink.delta == NULL || !job->request->stream) return;
    if (is_empty && !(ended && job->resumed)) return;
    struct mr_token_record record = {
        .id = job->request->id,
        .choice = sequence->choice,
        .index = delta->index,
        .resumed_at = job->resumed ? (int64_t)delta->index : -1,
        .token_ids = delta->token_ids,
        .token_count = delta->token_count,
        .text = delta->text,
        .logprobs = delta->logprobs,
    };
    job->resumed = false;
    engine->sink.delta(engine->sink.context, job->ticket, job->request, &record);
}

void mr_engine_emit_kept(struct mr_engine *engine, struct mr_job *job)
{
    struct mr_sequence *sequence = &job->sequences[0];
    for (uint32_t i = 0; i < job->kept_count; i++) {
        struct mr_completion_delta delta;
        enum mr_finish finish =
            mr_completion_push(sequence->completion, &job->kept[i], MR_FINISH_NONE, &delta);
        /* mr_job_create() kept only tokens that do not end the choice */
        MR_ASSERT(finish == MR_FINISH_NONE);
        emit(engine, sequence, &delta, false);
    }
    job->kept_count = 0;
}

static void fill_times(const struct mr_job *job, uint64_t now_ns, struct mr_result *result)
{
    uint64_t started_ns = job->started ? job->started_ns : now_ns;
    uint64_t first_ns = job->first_token_ns != 0 ? job->first_token_ns : now_ns;
    result->queue_ms = milliseconds(job->arrival_ns, started_ns);
    result->prefill_ms = milliseconds(started_ns, first_ns);
    result->first_token_ms =
        job->first_token_ns != 0 ? milliseconds(job->arrival_ns, first_ns) : 0.0;
    result->total_ms = milliseconds(job->arrival_ns, now_ns);
    result->itl_max_ms = (double)job->gap_max_ns / 1e6;
    if (job->gap_count > 0) result->itl_mean_ms = (double)job->gap_sum_ns / 1e6 / job->gap_count;
}

/* The error text for a request whose deadline, longest wait or longest run has passed. */
static const char *overdue_text(const struct mr_job *job, uint64_t now_ns)
{
    bool passed = job->deadline_ns != 0 && job->deadline_ns <= now_ns;
    if (job->late) return "the request could not have been finished before its deadline";
    if (!job->started)
        return passed ? "the deadline passed while the request waited"
                      : "the request waited longer than its topic allows";
    return passed ? "the deadline passed while the request ran"
                  : "the request ran longer than its topic allows";
}

static void fill_error(const struct mr_job *job, enum mr_finish finish, uint64_t now_ns,
                       struct mr_result *result)
{
    if (finish == MR_FINISH_CANCELLED) {
        result->error = MR_CANCELLED;
        result->error_message = "the request was cancelled";
    } else if (finish == MR_FINISH_DEADLINE) {
        result->error = MR_DEADLINE_EXCEEDED;
        result->error_message = overdue_text(job, now_ns);
    } else if (job->broken) {
        result->error = MR_INTERNAL;
        result->error_message = "the model computed logits that are not finite numbers";
    }
    result->error_retryable = mr_status_class(result->error) == MR_CLASS_RETRY;
}

static void unregister_job(struct mr_engine *engine, struct mr_job *job)
{
    mr_engine_unregister(engine, job);
    for (uint32_t i = 0; i < engine->job_count; i++)
        if (engine->jobs[i] == job) {
            engine->jobs[i] = engine->jobs[--engine->job_count];
            return;
        }
    MR_ASSERT(!job->listed);
}

static void report(struct mr_engine *engine, struct mr_job *job, uint64_t now_ns)
{
    struct mr_choice choices[MR_CHOICES_MAX];
    for (uint32_t i = 0; i < job->choice_count; i++)
        choices[i] = mr_completion_choice(job->sequences[i].completion);
    struct mr_result result = {
        .id = job->request->id,
        .choices = choices,
        .choice_count = job->choice_count,
        .prompt_tokens = job->sequences[0].prompt_tokens,
        .cached_tokens = job->cached_tokens,
        .cached_tokens_redis = job->cached_tokens_redis,
        .prefill_chunks = job->prefill_chunks,
        .preemptions = job->preemptions,
        .recomputed_tokens = job->recomputed_tokens,
        .metadata = job->request->metadata,
    };
    fill_times(job, now_ns, &result);
    fill_error(job, choices[0].finish, now_ns, &result);
    engine->stats.finished[choices[0].finish]++;
    engine->stats.cached_tokens += job->cached_tokens;
    engine->stats.cached_tokens_redis += job->cached_tokens_redis;
    unregister_job(engine, job);
    engine->sink.result(engine->sink.context, job->ticket, job->request, &result);
    mr_job_destroy(job);
}

static void end_choice(struct mr_engine *engine, struct mr_sequence *sequence,
                       enum mr_finish reason, uint64_t now_ns)
{
    struct mr_completion_delta delta;
    mr_engine_emit_kept(engine, sequence->job);
    mr_completion_finish(sequence->completion, reason, &delta);
    emit(engine, sequence, &delta, true);
    mr_scheduler_remove(engine->scheduler, sequence, now_ns);
}

void mr_engine_end_sequence(struct mr_engine *engine, struct mr_sequence *sequence,
                            enum mr_finish reason, uint64_t now_ns)
{
    struct mr_job *job = sequence->job;
    end_choice(engine, sequence, reason, now_ns);
    if (job->finished_count == job->choice_count) report(engine, job, now_ns);
}

void mr_engine_end_job(struct mr_engine *engine, struct mr_job *job, enum mr_finish reason,
                       uint64_t now_ns)
{
    for (uint32_t i = 0; i < job->choice_count; i++)
        if (job->sequences[i].state != MR_SEQUENCE_FINISHED)
            end_choice(engine, &job->sequences[i], reason, now_ns);
    report(engine, job, now_ns);
}

/* Inserts the full blocks that the step wrote into the prefix index, and the last block of a prompt
 * that the step finished. */
static void publish(const struct mr_sequence *sequence)
{
    if (!sequence->job->writes_cache || sequence->job->broken) return;
    uint32_t computed = sequence->num_computed;
    bool prompt_end = computed == sequence->prompt_tokens;
    bool block_end =
        computed / MR_BLOCK_TOKENS > sequence->table->published_tokens / MR_BLOCK_TOKENS;
    if (prompt_end || block_end)
        mr_kv_cache_publish(sequence->table, sequence->tokens, computed, prompt_end);
}

static void apply_rows(struct mr_engine *engine, const struct mr_plan *plan)
{
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct mr_plan_row *row = &plan->rows[i];
        struct mr_job *job = row->sequence->job;
        if (row->logits != NULL) engine->stats.prompt_cache_hits++;
        if (engine->shared != NULL && row->sequence->logits != NULL)
            mr_shared_load_end(engine->shared, row->sequence);
        if (row->token_count == 0) continue;
        uint32_t again = mr_sequence_advance(row->sequence, row->token_count);
        job->recomputed_tokens += again;
        engine->stats.recomputed_tokens += again;
        if (!row->decode) {
            job->prefill_chunks++;
            engine->stats.prompt_tokens += row->token_count;
        }
        publish(row->sequence);
        if (engine->shared != NULL) mr_shared_load_join(engine->shared, row->sequence);
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

static void apply_sample(struct mr_engine *engine, struct mr_sequence *sequence,
                         const struct mr_sample *sample, uint64_t now_ns)
{
    struct mr_completion_delta delta;
    struct mr_job *job = sequence->job;
    if (job->broken) {
        mr_engine_end_sequence(engine, sequence, MR_FINISH_ERROR, now_ns);
        return;
    }
    mr_sequence_append(sequence, sample->token_id);
    if (engine->sink.drawn != NULL && sequence->choice == 0)
        engine->sink.drawn(engine->sink.context, job->ticket, mr_sequence_generated(sequence) - 1,
                           sample);
    engine->stats.generated_tokens++;
    mr_request_queue_charge(engine->queue, job->tenant_index, MR_OUTPUT_TOKEN_COST);
    record_time(sequence, now_ns);
    enum mr_finish finish =
        mr_completion_push(sequence->completion, sample, MR_FINISH_NONE, &delta);
    emit(engine, sequence, &delta, finish != MR_FINISH_NONE);
    if (finish == MR_FINISH_NONE) {
        if (sequence->state == MR_SEQUENCE_WAITING) mr_scheduler_park(engine->scheduler, sequence);
        return;
    }
    mr_scheduler_remove(engine->scheduler, sequence, now_ns);
    if (job->finished_count == job->choice_count) report(engine, job, now_ns);
}

/* Puts the logits of a prompt that this step computed for the first time into the prompt cache. */
static void cache_logits(struct mr_engine *engine, struct mr_sequence *sequence, uint32_t logit_row,
                         uint64_t now_ns)
{
    const struct mr_model_port *model = &engine->options.model;
    const struct mr_job *job = sequence->job;
    if (engine->prompts == NULL || logit_row == UINT32_MAX || !job->writes_cache || job->broken ||
        sequence->choice != 0 || mr_sequence_generated(sequence) > 0)
        return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(engine->cache, job->root, sequence->tokens, sequence->num_tokens, key);
    float *row = mr_prompt_cache_put(engine->prompts, key, now_ns);
    if (row == NULL) return;
    if (model->logits(model->context, logit_row, row, NULL) != MR_OK)
        mr_prompt_cache_drop(engine->prompts, key);
    else
        sequence->entry_due = engine->shared != NULL;
}

/* Marks the jobs for which no token could be drawn, before anything that they computed is kept, and
 * drops their prompts' cached logits: they may be those that were not finite. */
static void mark_broken(struct mr_engine *engine)
{
    for (uint32_t i = 0; i < engine->builder->sample_count; i++) {
        const struct mr_sequence *sequence = engine->builder->sampled[i];
        unsigned char key[MR_HASH_BYTES];
        if (!engine->samples[i].failed) continue;
        sequence->job->broken = true;
        if (engine->prompts == NULL) continue;
        mr_kv_cache_prompt_key(engine->cache, sequence->job->root, sequence->tokens,
                               sequence->prompt_tokens, key);
        mr_prompt_cache_drop(engine->prompts, key);
    }
}

void mr_engine_apply_results(struct mr_engine *engine, const struct mr_plan *plan, uint64_t now_ns)
{
    mark_broken(engine);
    apply_rows(engine, plan);
    for (uint32_t i = 0; i < plan->row_count; i++)
        cache_logits(engine, plan->rows[i].sequence, engine->builder->logit_rows[i], now_ns);
    for (uint32_t i = 0; i < engine->builder->sample_count; i++)
        apply_sample(engine, engine->builder->sampled[i], &engine->samples[i], now_ns);
}
