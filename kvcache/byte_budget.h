/* byte_budget - limits the bytes a second that each tenant writes, with one token bucket per tenant
 * (Turner, "New directions in communications", 1986). A bucket holds at most the bytes of two
 * seconds. A tenant that floods the store spends its own budget only.
 *
 * At most MR_BUDGET_TENANTS_MAX tenants are tracked; a further one replaces the tenant seen longest
 * ago.
 *
 * Owner: one thread, or under its owner's lock. Memory: the struct. Errors: none. Clock: passed in.
 */
#ifndef MR_KVCACHE_BYTE_BUDGET_H
#define MR_KVCACHE_BYTE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define MR_BUDGET_TENANTS_MAX 64u

struct mr_byte_budget {
    uint64_t bytes_per_second; /* limit of each tenant's writes; 0: no limit */
    struct {
        uint64_t tenant; /* hash of the tenant's name */
        uint64_t seen_ns, bytes;
        bool used;
    } tenants[MR_BUDGET_TENANTS_MAX];
};

void mr_byte_budget_init(struct mr_byte_budget *budget, uint64_t bytes_per_second);
/* Charges bytes to the tenant's budget: true if the budget covers them all, else false and nothing
 * is charged. More bytes than two seconds' worth are never granted. */
bool mr_byte_budget_take(struct mr_byte_budget *budget, const char *tenant, uint64_t bytes,
                         uint64_t now_ns);

#endif
