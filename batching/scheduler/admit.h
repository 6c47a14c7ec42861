/* admit - step 3 of a plan: which preempted sequences and waiting requests start to run.
 *
 * Candidates are the parked sequences and the queue's entries, best first. Each is matched against
 * the prefix cache again, and admitted when
 *   - the shared cache's lookup for it has been answered or has timed out;
 *   - no running sequence computes a prefix of it (MR_COMMON_TOKENS_MIN tokens or more) at this
 *     moment: otherwise it waits and shares that prefix;
 *   - its deadline can be met (options.deadline_admission);
 *   - the future peak of KV blocks (batching/base/admission.h) with it stays below the pool less a
 *     watermark; a sequence running alone is always admitted;
 *   - rows, chunk tokens and the budget of prefills that start together have room.
 * A candidate without room in the pool is passed over at most MR_SKIPS_MAX times
 * (batching/queue/pass_over.h). A new request is charged to its tenant when it starts.
 *
 * Owner: engine thread. Memory: the schedule's. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_ADMIT_H
#define MR_BATCHING_SCHEDULER_ADMIT_H

#include "batching/scheduler/schedule.h"

#define MR_SKIPS_MAX         32u
#define MR_COMMON_TOKENS_MIN 32u /* shared tokens worth a round of waiting (SGLang's bound) */
#define MR_WATERMARK_PART    50u /* 2 %: fewest preemptions for throughput in vLLM's PR 44594 */

void mr_admit(struct mr_schedule *schedule);

#endif
