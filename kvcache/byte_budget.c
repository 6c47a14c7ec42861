#include "kvcache/byte_budget.h"

#include "codec/hash.h"

#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)

void mr_byte_budget_init(struct mr_byte_budget *budget, uint64_t bytes_per_second)
{
    memset(budget, 0, sizeof *budget);
    budget->bytes_per_second = bytes_per_second;
}

static uint32_t find_bucket(struct mr_byte_budget *budget, uint64_t tenant, uint64_t now_ns)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < MR_BUDGET_TENANTS_MAX; i++) {
        if (budget->tenants[i].used && budget->tenants[i].tenant == tenant) return i;
        uint64_t seen_ns = budget->tenants[i].used ? budget->tenants[i].seen_ns : 0;
        uint64_t least_ns = budget->tenants[oldest].used ? budget->tenants[oldest].seen_ns : 0;
        if (seen_ns < least_ns) oldest = i;
    }
    budget->tenants[oldest].tenant = tenant;
    budget->tenants[oldest].used = true;
    budget->tenants[oldest].seen_ns = now_ns;
    budget->tenants[oldest].bytes = 2 * budget->bytes_per_second;
    return oldest;
}

bool mr_byte_budget_take(struct mr_byte_budget *budget, const char *tenant, uint64_t bytes,
                         uint64_t now_ns)
{
    if (budget->bytes_per_second == 0) return true;
    uint64_t key = mr_hash_bytes(MR_HASH_START, tenant, strlen(tenant));
    uint32_t at = find_bucket(budget, key, now_ns);
    uint64_t full = 2 * budget->bytes_per_second, passed_ns = now_ns - budget->tenants[at].seen_ns;
    if (passed_ns > 2 * SECOND_NS) passed_ns = 2 * SECOND_NS;
    double earned = (double)budget->bytes_per_second * (double)passed_ns / (double)SECOND_NS;
    uint64_t left = budget->tenants[at].bytes + (uint64_t)earned;
    if (left > full) left = full;
    bool granted = bytes <= left;
    budget->tenants[at].bytes = granted ? left - bytes : left;
    budget->tenants[at].seen_ns = now_ns;
    return granted;
}
