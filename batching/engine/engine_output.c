/* The engine's output to its sink: token records, and results of ended requests. */
#include "batching/cache/remote_prefix.h"
#include "batching/engine/engine_state.h"
#include "codec/check.h"
#include "codec/records/message.h"

static double milliseconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

/* ended: the choice has ended. A resumed job that ends without a new token emits an empty delta, so
 * that a reader learns where the job resumed; and so does a choice whose text is split, because the
 * end of the text may release text that was held back (codec/records/message.h). */
static void emit(struct mr_engine *engine, const struct mr_sequence *sequence,
                 const struct mr_completion_delta *delta, bool ended)
{
    struct mr_job *job = sequence->job;
    bool is_empty = delta->token_count == 0 && delta->text.length == 0;
    bool is_split = mr_message_rules_of(job->request).is_split;
    if (engine->sink.delta == NULL || !job->request->stream) return;
    if (is_empty && !(ended && (job->resumed || is_split))) return;
    struct mr_token_record record = {
        .id = job->request->id,
        .choice = sequence->choice,
        .index = delta->index,
        .resumed_at = job->resumed ? (int64_t)delta->index : -1,
        .token_ids = delta->token_ids,
        .token_count = delta->token_count,
        .text = delta->text,
        .logprobs = delta->logprobs,
        .ended = ended,
    };
    if (job->resumed && is_split) record.before = delta->before;
    job->resumed = false;
    engine->sink.delta(engine->sink.context, job->ticket, job->request, &record);
}

void mr_engine_emit_kept(struct mr_engine *engine, struct mr_job *job)
{
    if (job->kept_count == 0) return;
    mr_engine_deliver(engine);
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
    result->has_deadline = job->deadline_ns != 0;
    result->margin_ms = ((double)job->deadline_ns - (double)now_ns) / 1e6;
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
    result->error_retryable = mr_status_is_retryable(result->error);
}

void mr_engine_report_chunks(struct mr_engine *engine, const struct mr_flight *flight,
                             uint64_t begin_ns, uint64_t end_ns)
{
    const struct mr_sink *sink = &engine->sink;
    for (uint32_t i = 0; sink->chunk != NULL && i < flight->row_count; i++) {
        const struct mr_flight_row *row = &flight->rows[i];
        if (row->sequence == NULL || !row->prefill) continue;
        struct mr_chunk chunk = {row->token_count, begin_ns, end_ns};
        sink->chunk(sink->context, row->sequence->job->ticket, &chunk);
    }
}

void mr_engine_unregister(struct mr_engine *engine, struct mr_job *job)
{
    mr_request_queue_release(engine->queue, &job->waiting);
    if (engine->remote != NULL) mr_remote_prefix_cancel_lookup(engine->remote, job);
}

void mr_engine_detach_job(struct mr_engine *engine, struct mr_job *job)
{
    mr_engine_unregister(engine, job);
    for (uint32_t i = 0; i < engine->job_count; i++)
        if (engine->jobs[i] == job) {
            engine->jobs[i] = engine->jobs[--engine->job_count];
            return;
        }
    MR_ASSERT(!job->listed);
}

/* Fills in the log-probabilities of given tokens, for a complete request or one with a complete
 * prompt. scores: [MR_CONTINUATIONS_MAX] memory for the result. */
static void fill_scores(const struct mr_job *job, struct mr_score *scores, struct mr_result *result)
{
    const struct mr_scores *from = job->scores;
    if (from == NULL) return;
    if (from->continuations != NULL)
        result->prompt_tokens = from->first + from->offsets[from->head_count];
    if (!mr_scores_done(from)) return;
    if (from->continuations == NULL) {
        result->prompt_logprobs = from->list;
        result->prompt_logprob_count = from->end;
        return;
    }
    if (from->current + 1 < from->head_count) return;
    for (uint32_t i = 0; i < from->head_count; i++)
        scores[i] = (struct mr_score){from->list + from->offsets[i],
                                      from->offsets[i + 1] - from->offsets[i]};
    result->scores = scores;
    result->score_count = from->head_count;
}

/* A request of vectors or classes has one choice in its result, without text. It ends as the first
 * of its sequences that has not computed its texts, if there is one. */
static void report_texts(const struct mr_job *job, struct mr_choice *choices,
                         struct mr_result *result)
{
    for (uint32_t i = 1; i < job->choice_count && choices[0].finish == MR_FINISH_LENGTH; i++)
        choices[0].finish = choices[i].finish;
    result->choice_count = 1;
    result->prompt_tokens = job->texts->token_count;
    if (!job->broken && mr_text_set_done(job->texts)) mr_text_set_report(job->texts, result);
}

/* Passes the result of a detached job to the sink and destroys the job. */
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
        .accepted_draft_tokens = job->accepted_draft_tokens,
        .prefill_chunks = job->prefill_chunks,
        .preemptions = job->preemptions,
        .recomputed_tokens = job->recomputed_tokens,
        .metadata = job->request->metadata,
    };
    struct mr_score scores[MR_CONTINUATIONS_MAX];
    fill_scores(job, scores, &result);
    if (job->texts != NULL) report_texts(job, choices, &result);
    fill_times(job, now_ns, &result);
    fill_error(job, choices[0].finish, now_ns, &result);
    engine->stats.finished[choices[0].finish]++;
    engine->stats.cached_tokens += job->cached_tokens;
    engine->stats.cached_tokens_redis += job->cached_tokens_redis;
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
    mr_engine_drop_rows(engine, sequence);
}

void mr_engine_end_sequence(struct mr_engine *engine, struct mr_sequence *sequence,
                            enum mr_finish reason, uint64_t now_ns)
{
    struct mr_job *job = sequence->job;
    mr_engine_deliver(engine);
    end_choice(engine, sequence, reason, now_ns);
    if (job->finished_count < job->choice_count) return;
    mr_engine_detach_job(engine, job);
    report(engine, job, now_ns);
}

void mr_engine_end_job(struct mr_engine *engine, struct mr_job *job, enum mr_finish reason,
                       uint64_t now_ns)
{
    mr_engine_deliver(engine);
    for (uint32_t i = 0; i < job->choice_count; i++)
        if (job->sequences[i].state != MR_SEQUENCE_FINISHED)
            end_choice(engine, &job->sequences[i], reason, now_ns);
    mr_engine_detach_job(engine, job);
    report(engine, job, now_ns);
}

/* ---- what is due ---- */

void mr_engine_add_due(struct mr_engine *engine, const struct mr_due *due)
{
    MR_ASSERT(engine->due_count < engine->due_max);
    engine->due[engine->due_count++] = *due;
}

void mr_engine_deliver(struct mr_engine *engine)
{
    const struct mr_sink *sink = &engine->sink;
    for (uint32_t i = 0; i < engine->due_count; i++) {
        const struct mr_due *due = &engine->due[i];
        struct mr_job *job = due->sequence->job;
        if (sink->drawn != NULL && due->sequence->choice == 0)
            sink->drawn(sink->context, job->ticket, due->index, &due->sample);
        emit(engine, due->sequence, &due->delta, due->choice_ended);
        if (due->job_ended) report(engine, job, due->now_ns);
    }
    engine->due_count = 0;
}

void mr_engine_drop_due(struct mr_engine *engine)
{
    for (uint32_t i = 0; i < engine->due_count; i++) {
        struct mr_job *job = engine->due[i].sequence->job;
        struct mr_request *request = job->request;
        if (!engine->due[i].job_ended) continue;
        mr_job_destroy(job);
        mr_request_destroy(request);
    }
    engine->due_count = 0;
}
