/* redis_rules - what of a Redis server deserves a line of millrace check: what it is, rights that
 * the login lacks, a replica, a memory policy that does not suit a cache, a clock that differs.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_RULES_H
#define MR_WORKER_REMOTE_CACHE_REDIS_RULES_H

#include "worker/remote_cache/redis_survey.h"

#include <stdbool.h>

/* Called with each thing that is wrong. fails: the worker cannot use this Redis; else it is a
 * warning. */
typedef void mr_redis_rules_report(void *context, bool fails, const char *text);

/* Writes what the server is: ", Redis 7.0.15, 1024 MiB, allkeys-lru"; "" if it does not say. */
void mr_redis_rules_describe(const struct mr_redis_survey *survey, char *text, size_t text_bytes);
/* values_expire: as mr_tier_policy_judge has it. */
void mr_redis_rules_check(const struct mr_redis_survey *survey, bool values_expire,
                          mr_redis_rules_report *report, void *context);

#endif
