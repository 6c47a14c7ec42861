/* redis_survey - queries a Redis server for millrace check: its version, role, memory policy and
 * clock, and which of a worker's commands the login may not run. To find out, it runs each command
 * except RPUSH on a key that no worker uses. Nothing changes, because SET and RPUSHX write only to
 * a key that exists.
 *
 * Owner: the thread of the port. Memory: none. Errors: MR_UNREACHABLE. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_SURVEY_H
#define MR_WORKER_REMOTE_CACHE_REDIS_SURVEY_H

#include "kvcache/remote/redis_client.h"
#include "kvcache/remote/redis_policy.h"

#define MR_REDIS_SURVEY_TEXT 96u

struct mr_redis_survey {
    char version[24]; /* "": not reported by the server, or INFO is denied */
    bool is_replica;
    bool has_policy, has_clock;
    struct mr_redis_policy policy;     /* if has_policy */
    int64_t clock_ms;                  /* if has_clock: how far its clock is ahead of ours */
    char denied[MR_REDIS_SURVEY_TEXT]; /* commands that the login may not run, as "set del" */
};

/* Runs the commands one after the other on a port that is ready. MR_UNREACHABLE: one was not
 * answered within timeout_ms. */
enum mr_status mr_redis_survey_run(struct mr_redis_survey *out, const struct mr_redis_port *port,
                                   uint32_t timeout_ms, struct mr_error *err);
/* Reads the reply to INFO, received when this machine's clock was unix_ms. */
void mr_redis_survey_read(struct mr_redis_survey *survey, const char *info, size_t length,
                          int64_t unix_ms);

#endif
