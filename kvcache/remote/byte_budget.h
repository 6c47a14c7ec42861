/* byte_budget - limits the bytes a second that each tenant writes, with one token bucket per tenant
 * (Turner, "New directions in communications", 1986). A bucket holds at most the bytes of two
 * seconds. A full bucket grants any number of bytes; bytes beyond the bucket become a debt, and
 * nothing is granted until the debt is paid. A tenant that stores too much spends only its own
 * budget.
 *
 * At most MR_BUDGET_TENANTS_MAX tenants are tracked; a further one replaces the tenant seen longest
 * ago.
 *
 * Owner: one thread, or under its owner's lock. Memory: the struct. Errors: none. Clock: passed in.
 */
#ifndef MR_KVCACHE_REMOTE_BYTE_BUDGET_H
#define MR_KVCACHE_REMOTE_BYTE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define MR_BUDGET_TENANTS_MAX 64u

struct mr_byte_budget {
    uint64_t bytes_per_second; /* limit of each tenant's writes; 0: no limit */
    struct {
        uint64_t tenant; /* id of the tenant */
        uint64_t seen_ns;
        double bytes; /* left in the bucket; negative: debt */
        bool used;
    } tenants[MR_BUDGET_TENANTS_MAX];
};

void mr_byte_budget_init(struct mr_byte_budget *budget, uint64_t bytes_per_second);
/* The id of a tenant in the calls below: a hash of its name. */
uint64_t mr_byte_budget_tenant(const char *name);
/* Charges bytes to the tenant's budget: true if the bucket covers them all or is full, else false
 * and nothing is charged. */
bool mr_byte_budget_take(struct mr_byte_budget *budget, uint64_t tenant, uint64_t bytes,
                         uint64_t now_ns);
/* Refunds bytes that were charged and are not written. */
void mr_byte_budget_give(struct mr_byte_budget *budget, uint64_t tenant, uint64_t bytes);

#endif
