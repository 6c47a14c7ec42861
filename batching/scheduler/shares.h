/* shares - each tenant's running places and KV blocks, and its share of both.
 *
 * A share is a tenant's part, by weight, among the tenants that have requests in the engine
 * (batching/queue/fair_share.h). The shares limit the resources that a tenant can take from
 * another:
 *   - the reservation for the future growth of a tenant's sequences is limited by its share: a
 *   request of a tenant whose own predicted peak of blocks stays within its share starts on blocks
 *   that are free now, regardless of predictions for others (batching/scheduler/admit.h);
 *   - when blocks run out, sequences of tenants above their share are preempted first: they rank
 *   below all others (batching/scheduler/scheduler.c);
 *   - a tenant with a waiting request and no running one is *owed* a start: room is made for that
 *   request (batching/scheduler/rebalance.h), and it is admitted before any other prefill of the
 *   step.
 *
 * mr_schedule_update_shares fills the struct at the start of each planning round.
 *
 * Owner: engine thread. Memory: inside struct mr_round. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_SHARES_H
#define MR_BATCHING_SCHEDULER_SHARES_H

#include "batching/queue/fair_share.h"

#define MR_WATERMARK_PART 50u /* 1/50 of the blocks stays free: a value from vLLM's PR 44594 */

/* All zero with a single tenant, which is never above its share and never owed a start. */
struct mr_shares {
    uint32_t places[MR_TENANTS_MAX], place_parts[MR_TENANTS_MAX]; /* running sequences */
    uint32_t blocks[MR_TENANTS_MAX], block_parts[MR_TENANTS_MAX]; /* KV blocks */
    uint64_t owed; /* bit i: tenant i has waiting requests, and none that started */
};

/* True when the tenant holds more KV blocks than its share. */
bool mr_shares_is_above(const struct mr_shares *shares, uint32_t tenant);
static inline bool mr_shares_is_owed(const struct mr_shares *shares, uint32_t tenant)
{
    return shares->owed >> tenant & 1;
}
/* Blocks that may be predicted for the tenant's sequences without regard to other tenants: its
 * share less a watermark. */
uint32_t mr_shares_block_limit(const struct mr_shares *shares, uint32_t tenant);
/* Call when a sequence of the tenant that holds this many blocks is preempted. */
void mr_shares_release(struct mr_shares *shares, uint32_t tenant, uint32_t blocks);

#endif
