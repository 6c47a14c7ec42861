/* redis_breaker - when to try a server again that failed.
 *
 * CLOSED: work goes on. After MR_BREAKER_FAILURES failures in a row it is OPEN: nothing is tried
 * until a wait is over; then one attempt is allowed (HALF_OPEN), whose end closes it or opens it
 * for twice as long, up to MR_BREAKER_WAIT_MAX_NS. A wait is drawn from its upper half ("equal
 * jitter"), so that a fleet does not come back all at once.
 *
 * Owner: one thread. Memory, errors: none. Clock: now_ns is passed in. */
#ifndef MR_KVCACHE_REDIS_REDIS_BREAKER_H
#define MR_KVCACHE_REDIS_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define MR_BREAKER_FAILURES    3u
#define MR_BREAKER_WAIT_MIN_NS ((uint64_t)50000000)
#define MR_BREAKER_WAIT_MAX_NS ((uint64_t)5000000000)

enum mr_breaker_state { MR_BREAKER_CLOSED, MR_BREAKER_OPEN, MR_BREAKER_HALF_OPEN };

struct mr_redis_breaker {
    enum mr_breaker_state state;
    uint32_t failures; /* in a row */
    uint64_t retry_ns; /* not before this */
    uint64_t random;
    uint64_t openings; /* how often it opened: a figure */
};

void mr_redis_breaker_init(struct mr_redis_breaker *breaker, uint64_t seed);
/* May something be tried now? Turns OPEN into HALF_OPEN when the wait is over: then true once,
 * until the attempt's end is told. */
bool mr_redis_breaker_allows(struct mr_redis_breaker *breaker, uint64_t now_ns);
void mr_redis_breaker_succeeded(struct mr_redis_breaker *breaker);
void mr_redis_breaker_failed(struct mr_redis_breaker *breaker, uint64_t now_ns);

#endif
