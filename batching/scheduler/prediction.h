/* prediction - what the scheduler expects of a request: how many tokens its sequences generate yet,
 * and how long it would run if it started now (batching/base/forecast.h).
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_PREDICTION_H
#define MR_BATCHING_SCHEDULER_PREDICTION_H

#include "batching/scheduler/schedule.h"

/* Tokens that the sequence is expected to generate yet: output_share (learnt from the tenant's
 * ended sequences) of max_tokens less what it has generated, but at least an eighth of what it may
 * still generate; all of that if the sequence was preempted before. */
uint32_t mr_predict_left(const struct mr_schedule *schedule, const struct mr_sequence *sequence);
/* True when the request has not started and would end after its deadline, with the option
 * deadline_admission. Time that loading from the remote cache saves is subtracted. */
bool mr_predict_is_late(const struct mr_schedule *schedule, const struct mr_sequence *sequence);
/* Call when the decode rows of the step are planned: updates which waiting requests are urgent
 * (batching/queue/request_queue.h). */
void mr_predict_urgent(struct mr_schedule *schedule);

#endif
