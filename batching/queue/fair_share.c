#include "batching/queue/fair_share.h"

#include "codec/check.h"

#include <stddef.h>

void mr_fair_share_init(struct mr_fair_share *share, uint32_t tenant_count, const uint32_t *weights)
{
    *share = (struct mr_fair_share){.tenant_count = tenant_count > 0 ? tenant_count : 1,
                                    .emptied_last = MR_TENANT_NONE};
    MR_ASSERT(share->tenant_count <= MR_TENANTS_MAX);
    for (uint32_t i = 0; i < share->tenant_count; i++) {
        share->weights[i] = weights != NULL ? weights[i] : 1;
        MR_ASSERT(share->weights[i] >= 1 && share->weights[i] <= MR_TENANT_WEIGHT_MAX);
    }
}

/* Raises the tenant's virtual time to the lowest virtual time of the tenants with waiting requests,
 * or, when none has any, to that of the tenant whose requests were the last to leave the queue. */
static void lift(struct mr_fair_share *share, uint32_t tenant)
{
    uint32_t least = mr_fair_share_next(share);
    if (least == MR_TENANT_NONE) least = share->emptied_last;
    if (least == MR_TENANT_NONE) return;
    if (share->virtual_time[tenant] < share->virtual_time[least])
        share->virtual_time[tenant] = share->virtual_time[least];
}

void mr_fair_share_enter(struct mr_fair_share *share, uint32_t tenant)
{
    MR_ASSERT(tenant < share->tenant_count);
    if (share->waiting[tenant] == 0) lift(share, tenant);
    share->waiting[tenant]++;
}

void mr_fair_share_return(struct mr_fair_share *share, uint32_t tenant)
{
    MR_ASSERT(tenant < share->tenant_count);
    share->waiting[tenant]++;
}

void mr_fair_share_leave(struct mr_fair_share *share, uint32_t tenant)
{
    MR_ASSERT(tenant < share->tenant_count && share->waiting[tenant] > 0);
    if (--share->waiting[tenant] == 0) share->emptied_last = tenant;
}

void mr_fair_share_charge(struct mr_fair_share *share, uint32_t tenant, uint64_t cost)
{
    MR_ASSERT(tenant < share->tenant_count);
    share->virtual_time[tenant] += cost * MR_FAIR_SHARE_SCALE / share->weights[tenant];
}

void mr_fair_share_refund(struct mr_fair_share *share, uint32_t tenant, uint64_t cost)
{
    MR_ASSERT(tenant < share->tenant_count);
    const uint64_t part = cost * MR_FAIR_SHARE_SCALE / share->weights[tenant];
    const uint64_t all = share->virtual_time[tenant];
    share->virtual_time[tenant] -= part < all ? part : all;
}

uint32_t mr_fair_share_next(const struct mr_fair_share *share)
{
    uint32_t best = MR_TENANT_NONE;
    for (uint32_t i = 0; i < share->tenant_count; i++)
        if (share->waiting[i] > 0 &&
            (best == MR_TENANT_NONE || mr_fair_share_is_behind(share, i, best, 0)))
            best = i;
    return best;
}

void mr_fair_share_divide(const struct mr_fair_share *share, uint32_t count_max,
                          const uint32_t *taken, uint32_t *parts)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < share->tenant_count; i++)
        if (share->waiting[i] > 0 || taken[i] > 0) all += share->weights[i];
    for (uint32_t i = 0; i < share->tenant_count; i++) {
        parts[i] = 0;
        if (share->waiting[i] == 0 && taken[i] == 0) continue;
        parts[i] = (uint32_t)((uint64_t)count_max * share->weights[i] / all);
        if (parts[i] == 0) parts[i] = 1;
    }
}

bool mr_fair_share_is_behind(const struct mr_fair_share *share, uint32_t one, uint32_t two,
                             uint64_t allowance)
{
    uint64_t ignored = allowance * MR_FAIR_SHARE_SCALE / share->weights[one];
    return share->virtual_time[one] < share->virtual_time[two] + ignored;
}
