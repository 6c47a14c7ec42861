/* rebalance - running places between tenants: when all are taken, a waiting tenant that was served
 * less and has fewer places than its weight gives it gets one, at most one in a round. The place
 * comes from a tenant with more than its part: the last in rank of its sequences is preempted. So
 * a flood of long answers does not keep other tenants out until these answers end.
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_REBALANCE_H
#define MR_BATCHING_SCHEDULER_REBALANCE_H

#include "batching/scheduler/schedule.h"

/* Before step 1 of a plan; the running sequences are sorted by rank. Sets round.reserved_tenant. */
void mr_rebalance(struct mr_schedule *schedule);

#endif
