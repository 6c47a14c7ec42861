#include "kvcache/remote/redis_policy.h"

#include <stdio.h>
#include <string.h>

bool mr_redis_policy_field(const char *info, size_t length, const char *name, char *value,
                           size_t value_bytes)
{
    size_t named = strlen(name);
    for (const char *at = info, *end = info + length; at < end;) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t line = feed ? (size_t)(feed - at) : (size_t)(end - at);
        size_t text = line > 0 && at[line - 1] == '\r' ? line - 1 : line;
        if (text > named && text - named - 1 < value_bytes && memcmp(at, name, named) == 0 &&
            at[named] == ':') {
            memcpy(value, at + named + 1, text - named - 1);
            value[text - named - 1] = '\0';
            return true;
        }
        at += line + 1;
    }
    return false;
}

bool mr_redis_policy_read(struct mr_redis_policy *policy, const char *info, size_t length)
{
    char number[24];
    *policy = (struct mr_redis_policy){0};
    if (!mr_redis_policy_field(info, length, "maxmemory_policy", policy->eviction,
                               sizeof policy->eviction) ||
        !mr_redis_policy_field(info, length, "maxmemory", number, sizeof number))
        return false;
    for (const char *digit = number; *digit; digit++) {
        if (*digit < '0' || *digit > '9') return false;
        policy->maxmemory_bytes = policy->maxmemory_bytes * 10 + (uint64_t)(*digit - '0');
    }
    return number[0] != '\0';
}

void mr_redis_policy_judge(const struct mr_redis_policy *policy, bool values_expire,
                           char text[MR_REDIS_POLICY_BYTES])
{
    bool expiring =
        /* policies named volatile-* evict only keys with a time to live */
        strncmp(policy->eviction, "volatile-", 9) == 0;
    bool evicts = strcmp(policy->eviction, "noeviction") != 0 && (!expiring || values_expire);
    text[0] = '\0';
    if (policy->maxmemory_bytes == 0)
        snprintf(text, MR_REDIS_POLICY_BYTES,
                 "Redis has no memory limit: blocks stay until they expire; set maxmemory, and "
                 "maxmemory-policy allkeys-lfu or allkeys-lru");
    else if (!evicts)
        snprintf(text, MR_REDIS_POLICY_BYTES,
                 "Redis does not evict old blocks when its memory is full (maxmemory-policy %s); "
                 "set it to allkeys-lfu or allkeys-lru",
                 policy->eviction);
}
