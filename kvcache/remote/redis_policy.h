/* redis_policy - reads the memory limit and the eviction policy of a Redis server from its reply to
 * "INFO memory", and checks whether they suit a cache.
 *
 * Threads: any. Memory: the caller's. Errors: none. */
#ifndef MR_KVCACHE_REMOTE_REDIS_POLICY_H
#define MR_KVCACHE_REMOTE_REDIS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_REDIS_POLICY_BYTES 192u

struct mr_redis_policy {
    uint64_t maxmemory_bytes; /* 0: the server has no memory limit */
    char eviction[32];        /* "noeviction", "allkeys-lru" and so on */
};

/* Copies the value of the line "NAME:VALUE" of a reply to INFO, NUL-terminated. False: the line is
 * missing, or the value does not fit. */
bool mr_redis_policy_field(const char *info, size_t length, const char *name, char *value,
                           size_t value_bytes);
/* info: the reply of Redis to "INFO memory". False: the reply lacks the limit or the policy. */
bool mr_redis_policy_read(struct mr_redis_policy *policy, const char *info, size_t length);
/* Writes one sentence on why the limit or the policy is bad for a cache; "" when both suit.
 * values_expire: the stored KV blocks have a time to live, so that the policies named volatile-*
 * evict them. */
void mr_redis_policy_judge(const struct mr_redis_policy *policy, bool values_expire,
                           char text[MR_REDIS_POLICY_BYTES]);

#endif
