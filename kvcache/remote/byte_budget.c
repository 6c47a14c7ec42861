#include "kvcache/remote/byte_budget.h"

#include "codec/hash.h"

#include <string.h>

#define SECOND_NS ((uint64_t)1000000000)

void mr_byte_budget_init(struct mr_byte_budget *budget, uint64_t bytes_per_second)
{
    memset(budget, 0, sizeof *budget);
    budget->bytes_per_second = bytes_per_second;
}

uint64_t mr_byte_budget_tenant(const char *name)
{
    return mr_hash_bytes(MR_HASH_START, name, strlen(name));
}

/* The index of the tenant's bucket; MR_BUDGET_TENANTS_MAX: it has none. */
static uint32_t find_bucket(const struct mr_byte_budget *budget, uint64_t tenant)
{
    for (uint32_t i = 0; i < MR_BUDGET_TENANTS_MAX; i++)
        if (budget->tenants[i].used && budget->tenants[i].tenant == tenant) return i;
    return MR_BUDGET_TENANTS_MAX;
}

static double full_bytes(const struct mr_byte_budget *budget)
{
    return 2 * (double)budget->bytes_per_second;
}

/* Makes a full bucket for the tenant in a free place, or in the place of the tenant seen longest
 * ago. */
static uint32_t make_bucket(struct mr_byte_budget *budget, uint64_t tenant, uint64_t now_ns)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < MR_BUDGET_TENANTS_MAX; i++) {
        uint64_t seen_ns = budget->tenants[i].used ? budget->tenants[i].seen_ns : 0;
        uint64_t least_ns = budget->tenants[oldest].used ? budget->tenants[oldest].seen_ns : 0;
        if (seen_ns < least_ns) oldest = i;
    }
    budget->tenants[oldest].tenant = tenant;
    budget->tenants[oldest].used = true;
    budget->tenants[oldest].seen_ns = now_ns;
    budget->tenants[oldest].bytes = full_bytes(budget);
    return oldest;
}

/* Adds bytes to the bucket, which holds at most the bytes of two seconds. */
static void fill(struct mr_byte_budget *budget, uint32_t at, double bytes)
{
    budget->tenants[at].bytes += bytes;
    if (budget->tenants[at].bytes > full_bytes(budget))
        budget->tenants[at].bytes = full_bytes(budget);
}

bool mr_byte_budget_take(struct mr_byte_budget *budget, uint64_t tenant, uint64_t bytes,
                         uint64_t now_ns)
{
    if (budget->bytes_per_second == 0) return true;
    uint32_t at = find_bucket(budget, tenant);
    if (at == MR_BUDGET_TENANTS_MAX) at = make_bucket(budget, tenant, now_ns);
    uint64_t passed_ns = now_ns - budget->tenants[at].seen_ns;
    fill(budget, at, (double)budget->bytes_per_second * (double)passed_ns / (double)SECOND_NS);
    budget->tenants[at].seen_ns = now_ns;
    double left = budget->tenants[at].bytes;
    bool granted = (double)bytes <= left || left >= full_bytes(budget);
    if (granted) budget->tenants[at].bytes -= (double)bytes;
    return granted;
}

void mr_byte_budget_give(struct mr_byte_budget *budget, uint64_t tenant, uint64_t bytes)
{
    uint32_t at = find_bucket(budget, tenant);
    if (at < MR_BUDGET_TENANTS_MAX) fill(budget, at, (double)bytes);
}
