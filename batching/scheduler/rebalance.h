/* rebalance - moves running places between tenants. When all sequences_max places are taken, a
 * tenant with a waiting request that was served less than another tenant, and has fewer places than
 * its weight gives it, gets one place, at most one in a planning round. The place comes from a
 * tenant that has more places than its weight gives it: the last in rank of that tenant's sequences
 * is preempted. So a flood of long answers does not keep other tenants out until these answers end.
 * While prefills_max long prefills run, a tenant gets a place only for a request that may start
 * beside them. It gets none while its next request waits for the answer to its lookup in the Redis
 * cache, which this starts, or for a prefix that is being computed.
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_REBALANCE_H
#define MR_BATCHING_SCHEDULER_REBALANCE_H

#include "batching/scheduler/schedule.h"

/* Call before the decode rows are planned, with the running sequences sorted by rank. Sets
 * schedule->round.reserved_tenant to the tenant that gets the freed place. */
void mr_rebalance(struct mr_schedule *schedule);

#endif
