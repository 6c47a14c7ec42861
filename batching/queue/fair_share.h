/* fair_share - which tenant is served next. Tenants share the engine by the work computed for them,
 * so that a flood of one tenant's requests does not starve another tenant.
 *
 * Every tenant has a virtual time, which rises by the cost of each token served divided by the
 * tenant's weight. Among tenants with waiting requests, the tenant with the lowest virtual time
 * goes next. When an idle tenant enqueues again, its virtual time is raised to the lowest virtual
 * time of the waiting tenants, so idling earns no credit. (The virtual token counter of Sheng et
 * al., "Fairness in Serving Large Language Models", OSDI 2024: prompt tokens are charged when a
 * request is admitted, output tokens as they are generated, and an output token costs twice a
 * prompt token. A cached prompt token costs nothing here; the cost of one that is loaded from Redis
 * after its request was admitted is refunded.)
 *
 * The virtual times of two tenants that always have requests waiting never differ by more than a
 * few requests' worth of tokens, regardless of their requests.
 *
 * Pure values. Owner: batching/queue/request_queue.h, under its mutex. Memory: the struct itself.
 * Errors: none. Units: virtual time is cost * MR_FAIR_SHARE_SCALE / weight. */
#ifndef MR_BATCHING_QUEUE_FAIR_SHARE_H
#define MR_BATCHING_QUEUE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_TENANTS_MAX       64u /* most tenants; each request topic may be one tenant */
#define MR_TENANT_NONE       UINT32_MAX
#define MR_TENANT_WEIGHT_MAX 1000u
#define MR_PROMPT_TOKEN_COST 1u
#define MR_OUTPUT_TOKEN_COST 2u
#define MR_FAIR_SHARE_SCALE  ((uint64_t)1 << 16)

struct mr_fair_share {
    uint32_t tenant_count;
    uint32_t weights[MR_TENANTS_MAX]; /* weight of each tenant, 1 to MR_TENANT_WEIGHT_MAX */
    uint32_t waiting[MR_TENANTS_MAX]; /* waiting requests of each tenant */
    uint64_t virtual_time[MR_TENANTS_MAX];
    uint32_t emptied_last; /* tenant whose waiting requests were the last to run out */
};

/* tenant_count: 0 means 1. weights: [tenant_count]; NULL: all weights equal. */
void mr_fair_share_init(struct mr_fair_share *share, uint32_t tenant_count,
                        const uint32_t *weights);
/* Counts a new waiting request of the tenant. A tenant that had none has its virtual time raised to
 * the lowest virtual time of the waiting tenants. */
void mr_fair_share_enter(struct mr_fair_share *share, uint32_t tenant);
/* Counts a request that was dequeued, not admitted, and waits again; does not raise the tenant's
 * virtual time. */
void mr_fair_share_return(struct mr_fair_share *share, uint32_t tenant);
void mr_fair_share_leave(struct mr_fair_share *share, uint32_t tenant);
/* Adds the cost of tokens computed for the tenant to the tenant's virtual time. */
void mr_fair_share_charge(struct mr_fair_share *share, uint32_t tenant, uint64_t cost);
/* Refunds the cost of tokens that were charged and not computed; at most all of the tenant's
 * virtual time. */
void mr_fair_share_refund(struct mr_fair_share *share, uint32_t tenant, uint64_t cost);
/* The tenant with waiting requests that has the lowest virtual time; MR_TENANT_NONE when no request
 * waits. */
uint32_t mr_fair_share_next(const struct mr_fair_share *share);
/* Divides count_max running places by weight among the tenants that have waiting requests or
 * running places (taken): parts[i] is rounded down and at least 1; 0 for other tenants. taken,
 * parts: [tenant_count]. */
void mr_fair_share_divide(const struct mr_fair_share *share, uint32_t count_max,
                          const uint32_t *taken, uint32_t *parts);
/* True when tenant `one` was served less than tenant `two` in proportion to their weights, when
 * `allowance` of the cost charged to `one` is ignored. With equal virtual times: false, unless
 * allowance is above 0. */
bool mr_fair_share_is_behind(const struct mr_fair_share *share, uint32_t one, uint32_t two,
                             uint64_t allowance);

#endif
