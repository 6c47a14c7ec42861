#include "batching/scheduler/prediction.h"

#include "batching/base/forecast.h"
#include "batching/cache/remote_prefix.h"
#include "batching/sequence/scores.h"

#include <math.h>

uint32_t mr_predict_left(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    uint32_t left = sequence->capacity - sequence->num_tokens;
    if (sequence->preemptions > 0) return left;
    double all = sequence->capacity - sequence->prompt_tokens;
    const double share = schedule->output_share[sequence->job->tenant_index];
    double more = share * all - mr_sequence_generated(sequence);
    uint32_t expected = more > 0 ? (uint32_t)ceil(more) : 0;
    if (expected < left / 8) expected = left / 8;
    return expected < left ? expected : left;
}

/* Predicted ms from the start of the request to its end, in steps that also hold the rows planned
 * now. 0: unknown. */
static double own_ms(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    const struct mr_scheduler_options *options = &schedule->options;
    const struct mr_job *job = sequence->job;
    uint32_t most = sequence->capacity - sequence->num_tokens;
    uint32_t output = job->request->ignore_eos ? most : mr_predict_left(schedule, sequence);
    if (output < job->request->min_tokens) output = job->request->min_tokens;
    const bool scores = !mr_scores_done(sequence->scores);
    const int32_t chunk = scores ? (int32_t)options->score_rows_max : options->chunk_tokens;
    struct mr_forecast forecast = {.beside = schedule->plan.work,
                                   .computed_tokens = sequence->num_computed,
                                   .pending_tokens = mr_sequence_pending(sequence),
                                   .scored_tokens = scores ? mr_sequence_pending(sequence) : 0,
                                   .chunk_tokens = chunk > 0 ? (uint32_t)chunk : 0,
                                   .output_tokens = output < most ? output : most};
    forecast.beside.chunk = forecast.beside.scored = 0;
    return mr_forecast_ms(options->cost, &forecast);
}

bool mr_predict_is_late(const struct mr_schedule *schedule, const struct mr_sequence *sequence)
{
    const struct mr_scheduler_options *options = &schedule->options;
    const struct mr_job *job = sequence->job;
    if (!options->deadline_admission || job->started || job->deadline_ns == 0) return false;
    double ms = own_ms(schedule, sequence);
    if (options->remote != NULL && ms > 0)
        ms -= mr_remote_prefix_saved_ms(options->remote, sequence);
    return (double)schedule->round.now_ns + ms * 1e6 > (double)job->deadline_ns;
}

/* The prompt is not looked up in the prefix cache: that would hash every waiting prompt.
 */
static uint64_t own_ns_of(void *context, struct mr_queue_entry *entry)
{
    return (uint64_t)(own_ms(context, &mr_job_of_waiting(entry)->sequences[0]) * 1e6);
}

void mr_predict_urgent(struct mr_schedule *schedule)
{
    mr_request_queue_update_urgent(schedule->options.queue, schedule->round.now_ns, own_ns_of,
                                   schedule);
}
