/* tier_policy - reads a server's memory limit and eviction policy from "INFO memory", and judges
 * whether they suit a cache.
 *
 * Threads: any. Memory: the caller's. Errors: none. */
#ifndef MR_WORKER_REDIS_TIER_POLICY_H
#define MR_WORKER_REDIS_TIER_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_TIER_POLICY_BYTES 192u

struct mr_tier_policy {
    uint64_t maxmemory_bytes; /* 0: no limit */
    char eviction[32];        /* "noeviction", "allkeys-lru" ... */
};

/* info: the text of the reply. False: it lacks one of the two. */
bool mr_tier_policy_read(struct mr_tier_policy *policy, const char *info, size_t length);
/* Writes one sentence about what will go wrong; "" when nothing will. values_expire: KV blocks have
 * a time to live, so that the policies named volatile-* evict them. */
void mr_tier_policy_judge(const struct mr_tier_policy *policy, bool values_expire,
                          char text[MR_TIER_POLICY_BYTES]);

#endif
