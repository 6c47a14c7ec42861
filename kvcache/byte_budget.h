/* byte_budget - so many bytes a second for each tenant: a bucket of tokens that holds what two
 * seconds bring (Turner, "New directions in communications", 1986). One tenant that floods the
 * store uses up its own budget and nobody else's.
 *
 * Of at most MR_BUDGET_TENANTS_MAX tenants; a further one takes the place of the one seen longest
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
    uint64_t bytes_per_second; /* 0: no limit */
    struct {
        uint64_t tenant; /* hash of its name */
        uint64_t seen_ns, bytes;
        bool used;
    } tenants[MR_BUDGET_TENANTS_MAX];
};

void mr_byte_budget_init(struct mr_byte_budget *budget, uint64_t bytes_per_second);
/* Takes all of them or, answering false, none. More than two seconds bring is never granted. */
bool mr_byte_budget_take(struct mr_byte_budget *budget, const char *tenant, uint64_t bytes,
                         uint64_t now_ns);

#endif
