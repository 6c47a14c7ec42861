/* redis_client_state - the circuit breaker of one node, private to kvcache/remote/redis_client.h:
 * decides when to retry a server that failed.
 *
 * CLOSED: attempts are allowed, after a short wait if the last one failed. After
 * MR_BREAKER_FAILURES failures in a row the breaker is OPEN: no attempt until the wait has passed.
 * Then it is HALF_OPEN for one attempt, whose success closes the breaker and whose failure opens it
 * for twice as long, up to MR_BREAKER_WAIT_MAX_NS. The wait is half fixed and half random ("equal
 * jitter"), so that the workers of a fleet do not reconnect all at once.
 *
 * Owner: one thread. Memory, errors: none. Clock: now_ns is passed in. */
#ifndef MR_KVCACHE_REMOTE_REDIS_CLIENT_STATE_H
#define MR_KVCACHE_REMOTE_REDIS_CLIENT_STATE_H

#include "kvcache/remote/redis_client.h"

#define MR_BREAKER_FAILURES    3u
#define MR_BREAKER_WAIT_MIN_NS ((uint64_t)50000000)
#define MR_BREAKER_WAIT_MAX_NS ((uint64_t)5000000000)

struct mr_redis_breaker {
    enum mr_breaker_state state;
    uint32_t failures; /* failed attempts in a row */
    uint64_t retry_ns; /* no attempt before this time */
    uint64_t random;
    uint64_t openings; /* number of times that the breaker opened; for statistics */
};

void mr_redis_breaker_init(struct mr_redis_breaker *breaker, uint64_t seed);
/* Whether to make an attempt to connect now. Turns OPEN into HALF_OPEN when the wait has passed:
 * then returns true once, until _succeeded or _failed reports the outcome of that attempt. */
bool mr_redis_breaker_allows(struct mr_redis_breaker *breaker, uint64_t now_ns);
void mr_redis_breaker_succeeded(struct mr_redis_breaker *breaker);
void mr_redis_breaker_failed(struct mr_redis_breaker *breaker, uint64_t now_ns);

#endif
