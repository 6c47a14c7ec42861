/* prediction - the scheduler's expectations for a request: the tokens that its sequences will still
 * generate, and its run time if it started now (batching/base/forecast.h).
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_PREDICTION_H
#define MR_BATCHING_SCHEDULER_PREDICTION_H

#include "batching/scheduler/schedule.h"

/* Tokens that the sequence is expected to generate from now on: output_share (learnt from the
 * tenant's ended sequences) of max_tokens, minus the generated tokens, but at least an eighth of
 * the tokens that it may still generate. For a sequence that was preempted before: all tokens that
 * it may still generate. */
uint32_t mr_predict_left(const struct mr_schedule *schedule, const struct mr_sequence *sequence);
/* True when the request has not started and would end after its deadline, with the option
 * deadline_admission. Time that loading from the remote cache saves is subtracted. */
bool mr_predict_is_late(const struct mr_schedule *schedule, const struct mr_sequence *sequence);
/* Call when the decode rows of the step are planned: updates which waiting requests are urgent
 * (batching/queue/request_queue.h). */
void mr_predict_urgent(struct mr_schedule *schedule);

#endif
