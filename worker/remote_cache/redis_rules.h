/* redis_rules - the findings about a Redis server that millrace check prints: its version and
 * memory, commands that the login may not run, a replica, a memory policy that does not suit a
 * cache, a clock that differs.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_RULES_H
#define MR_WORKER_REMOTE_CACHE_REDIS_RULES_H

#include "worker/remote_cache/redis_survey.h"

#include <stdbool.h>

/* Called with each finding. fails: the worker cannot use this Redis; false: a warning. */
typedef void mr_redis_rules_report(void *context, bool fails, const char *text);

/* Writes version, memory limit and policy: ", Redis 7.0.15, 1024 MiB, allkeys-lru"; "" if the
 * server does not report them. */
void mr_redis_rules_describe(const struct mr_redis_survey *survey, char *text, size_t text_bytes);
/* values_expire: as in mr_redis_policy_judge. */
void mr_redis_rules_check(const struct mr_redis_survey *survey, bool values_expire,
                          mr_redis_rules_report *report, void *context);

#endif
