/* fair_share - whose turn it is: tenants share the engine by what was computed for them, so that
 * one tenant's flood of requests does not starve another.
 *
 * Every tenant has a virtual time, which rises by the cost of each token served divided by the
 * tenant's weight; among tenants with requests waiting, the one that is furthest behind goes next.
 * A tenant that comes back after a pause is lifted to those that kept waiting, so a pause earns no
 * credit. (The virtual token counter of Sheng et al., "Fairness in Serving Large Language Models",
 * OSDI 2024: prompt tokens are charged when a request is let in, output tokens as they are made, an
 * output token costs twice a prompt token. A cached prompt token costs nothing here.)
 *
 * Two tenants that both always wait are never further apart than a few requests' worth of tokens,
 * whatever either sends.
 *
 * Pure values. Owner: batching/queue/request_queue.h, under its mutex. Memory: the struct itself.
 * Errors: none. Units: virtual time is cost * MR_FAIR_SHARE_SCALE / weight. */
#ifndef MR_BATCHING_QUEUE_FAIR_SHARE_H
#define MR_BATCHING_QUEUE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_TENANTS_MAX       64u /* one for each request topic at most */
#define MR_TENANT_NONE       UINT32_MAX
#define MR_TENANT_WEIGHT_MAX 1000u
#define MR_PROMPT_TOKEN_COST 1u
#define MR_OUTPUT_TOKEN_COST 2u
#define MR_FAIR_SHARE_SCALE  ((uint64_t)1 << 16)

struct mr_fair_share {
    uint32_t tenant_count;
    uint32_t weights[MR_TENANTS_MAX]; /* 1 to MR_TENANT_WEIGHT_MAX */
    uint32_t waiting[MR_TENANTS_MAX]; /* requests */
    uint64_t virtual_time[MR_TENANTS_MAX];
    uint32_t left_last; /* the tenant whose queue was the last to become empty */
};

/* tenant_count: 0 is 1. weights: [tenant_count], or NULL: all the same. */
void mr_fair_share_init(struct mr_fair_share *share, uint32_t tenant_count,
                        const uint32_t *weights);
/* A new request of the tenant waits. */
void mr_fair_share_enter(struct mr_fair_share *share, uint32_t tenant);
/* A request that had left for a moment waits again: nobody is lifted. */
void mr_fair_share_return(struct mr_fair_share *share, uint32_t tenant);
void mr_fair_share_leave(struct mr_fair_share *share, uint32_t tenant);
/* What was computed for the tenant, in costs. */
void mr_fair_share_charge(struct mr_fair_share *share, uint32_t tenant, uint64_t cost);
/* The waiting tenant furthest behind; MR_TENANT_NONE when none waits. */
uint32_t mr_fair_share_next(const struct mr_fair_share *share);
/* Places for each tenant that waits or has taken some, by weight, rounded down, at least 1; 0 for
 * the others. taken, parts: [tenant_count]. */
void mr_fair_share_divide(const struct mr_fair_share *share, uint32_t count_max,
                          const uint32_t *taken, uint32_t *parts);
/* `one` is further behind than `two`, with `allowance` of what it was charged left out. */
bool mr_fair_share_is_behind(const struct mr_fair_share *share, uint32_t one, uint32_t two,
                             uint64_t allowance);

#endif
