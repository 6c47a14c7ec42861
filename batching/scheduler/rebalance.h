/* rebalance - frees running places and KV blocks of tenants above their share for other tenants, by
 * preempting sequences that are last in rank. It acts for one tenant in a planning round.
 *
 * Places, when all sequences_max are taken: a tenant with a waiting request and fewer places than
 * its share gets one place of a tenant with more than its share. A tenant that is owed a start
 * (batching/scheduler/shares.h) gets it at once; another only if it was served less. So a flood of
 * long answers does not keep other tenants out until these answers end.
 *
 * Blocks, when too few are free or evictable: the first request of a tenant that is owed a start
 * gets the blocks of its tokens, if these are within the tenant's share.
 *
 * Nothing is preempted for a request that could not start: one that waits for its lookup in the
 * remote cache, which this starts, for a prefix that is being computed, or for the sink; nor, while
 * prefills_max long prefills run, for a long prompt of a tenant that is not owed a start.
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_REBALANCE_H
#define MR_BATCHING_SCHEDULER_REBALANCE_H

#include "batching/scheduler/schedule.h"

/* Call before the decode rows are planned, with the running sequences sorted by rank. Sets
 * schedule->round.reserved_tenant to the tenant that gets the freed place, unless the tenant is
 * owed a start: its request is planned first anyway. */
void mr_rebalance(struct mr_schedule *schedule);

#endif
