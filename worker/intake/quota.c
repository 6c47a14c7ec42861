#include "worker/intake/quota.h"

#include "codec/check.h"

#define MINUTE_NS 60e9
#define DAY_NS    86400e9

void mr_quota_open(struct mr_quota *quota, const struct mr_config *config)
{
    *quota = (struct mr_quota){.now_ns = 0};
    for (uint32_t i = 0; i < config->tenant_count; i++) {
        const double minute = (double)config->minute_quotas[i];
        const double day = (double)config->day_quotas[i];
        quota->tenants[i].minute = (struct mr_quota_bucket){minute, minute};
        quota->tenants[i].day = (struct mr_quota_bucket){day, day};
    }
}

static void refill(struct mr_quota_bucket *bucket, double share_of_period)
{
    bucket->left += bucket->limit * share_of_period;
    if (bucket->left > bucket->limit) bucket->left = bucket->limit;
}

static bool has_room(const struct mr_quota_bucket *bucket, uint64_t reserved)
{
    return bucket->limit <= 0 || bucket->left > (double)reserved;
}

uint64_t mr_quota_room(struct mr_quota *quota, uint64_t now_ns)
{
    const double passed_ns = quota->now_ns > 0 ? (double)(now_ns - quota->now_ns) : 0;
    uint64_t room = 0;
    quota->now_ns = now_ns;
    for (uint32_t i = 0; i < MR_LIST_MAX; i++) {
        struct mr_quota_bucket *minute = &quota->tenants[i].minute, *day = &quota->tenants[i].day;
        refill(minute, passed_ns / MINUTE_NS);
        refill(day, passed_ns / DAY_NS);
        if (has_room(minute, quota->tenants[i].reserved) &&
            has_room(day, quota->tenants[i].reserved))
            room |= UINT64_C(1) << i;
    }
    return room;
}

void mr_quota_reserve(struct mr_quota *quota, uint32_t tenant, uint64_t tokens)
{
    quota->tenants[tenant].reserved += tokens;
}

void mr_quota_charge(struct mr_quota *quota, uint32_t tenant, uint64_t reserved, uint64_t used)
{
    MR_ASSERT(quota->tenants[tenant].reserved >= reserved);
    quota->tenants[tenant].reserved -= reserved;
    quota->tenants[tenant].minute.left -= (double)used;
    quota->tenants[tenant].day.left -= (double)used;
}
