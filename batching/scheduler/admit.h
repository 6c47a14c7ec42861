/* admit - the last stage of planning a step: which preempted sequences, further choices and waiting
 * requests start to run.
 *
 * Candidates are the scheduler's parked sequences (preempted ones and further choices) and the
 * requests in the queue, in the queue's order. Each candidate is matched against the prefix cache
 * again, and admitted when
 *   - its lookup in the remote cache has been answered or has timed out;
 *   - no running sequence is computing a prefix of it (MR_COMMON_TOKENS_MIN tokens or more):
 *   otherwise the candidate waits and then reuses the KV of that prefix;
 *   - its deadline can be met (options.deadline_admission);
 *   - the predicted peak of KV blocks (batching/base/peak_blocks.h) with it stays below the pool
 *   less a watermark, or the peak of its tenant's sequences alone stays below the tenant's share
 *   (batching/scheduler/shares.h); a sequence running alone is always admitted;
 *   - the blocks of its tokens are free or evictable now;
 *   - the sink has answered that the request may start (batching/engine/engine.h);
 *   - the step has free rows and chunk tokens, and the budget of prefills that start together has
 *   space for it;
 *   - with round.shorts_only: it may start while a long prefill runs
 *   (batching/scheduler/scheduler.h).
 * A candidate for which the pool has too few blocks is passed over at most MR_SKIPS_MAX times
 * (batching/queue/pass_over.h). A new request is charged to its tenant when it starts.
 *
 * Owner: engine thread. Memory: that of struct mr_schedule. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_ADMIT_H
#define MR_BATCHING_SCHEDULER_ADMIT_H

#include "batching/scheduler/schedule.h"

#define MR_SKIPS_MAX 32u

/* Considers the first request of each tenant that is owed a start (batching/scheduler/shares.h), in
 * the order in which tenants are served. Each may take an equal part of the step's prefill. */
void mr_admit_owed(struct mr_schedule *schedule);
void mr_admit(struct mr_schedule *schedule);

#endif
