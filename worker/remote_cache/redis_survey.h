/* redis_survey - what millrace check learns of a Redis server: its version, role, memory policy and
 * clock, and which of a worker's commands its login may not run. Of these commands it runs all but
 * RPUSH, as they change nothing: on a key that no worker has, SET and RPUSHX only if it exists.
 *
 * Owner: the thread of the port. Memory: none. Errors: MR_UNREACHABLE. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_SURVEY_H
#define MR_WORKER_REMOTE_CACHE_REDIS_SURVEY_H

#include "worker/remote_cache/redis_port.h"
#include "worker/remote_cache/tier_policy.h"

#define MR_REDIS_SURVEY_TEXT 96u

struct mr_redis_survey {
    char version[24]; /* "": the server does not say, or INFO is denied */
    bool is_replica;
    bool has_policy, has_clock;
    struct mr_tier_policy policy;      /* if has_policy */
    int64_t clock_ms;                  /* if has_clock: how far its clock is ahead of ours */
    char denied[MR_REDIS_SURVEY_TEXT]; /* commands that the login may not run, as "set del" */
};

/* Runs the commands one after the other on a port that is ready. MR_UNREACHABLE: one was not
 * answered within timeout_ms. */
enum mr_status mr_redis_survey_run(struct mr_redis_survey *out, const struct mr_redis_port *port,
                                   uint32_t timeout_ms, struct mr_error *err);
/* Reads the reply to INFO, which came when our clock was unix_ms. */
void mr_redis_survey_read(struct mr_redis_survey *survey, const char *info, size_t length,
                          int64_t unix_ms);

#endif
