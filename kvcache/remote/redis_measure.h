/* redis_measure - measures the bandwidth of a Redis connection before any KV block has been loaded:
 * sends 1 MiB with the command ECHO and times the reply, a few times, and keeps the best rate.
 *
 * Owner: one connection thread. Memory: 1 MiB, allocated by the first measurement. Errors: none;
 * when memory is out nothing is measured. Clock: passed in. */
#ifndef MR_KVCACHE_REMOTE_REDIS_MEASURE_H
#define MR_KVCACHE_REMOTE_REDIS_MEASURE_H

#include "kvcache/remote/redis_client.h"

#define MR_REDIS_MEASURE_BYTES ((size_t)1 << 20)
/* shortest time between the starts of two measurements */
#define MR_REDIS_MEASURE_GAP_NS ((uint64_t)30 * 1000000000)

struct mr_redis_measure {
    struct mr_redis_command command; /* command.owner points to this struct */
    char text[48];
    void *bytes; /* [MR_REDIS_MEASURE_BYTES] sent to Redis and received back */
    uint64_t begun_ns, next_ns;
    uint32_t rounds;         /* rounds of ECHO finished so far; a slow round is treated as two */
    double bytes_per_second; /* the best rate of the rounds so far */
    bool active;
};

/* A zeroed struct mr_redis_measure is ready for use. _end frees its memory; call it when no ECHO is
 * in flight. */
void mr_redis_measure_end(struct mr_redis_measure *measure);
/* Starts a measurement unless one is running, or the last one began less than
 * MR_REDIS_MEASURE_GAP_NS ago. */
void mr_redis_measure_begin(struct mr_redis_measure *measure, const struct mr_redis_port *port,
                            uint64_t now_ns);
/* Call it when the command of an ECHO has ended; starts the next round if one is due. True: the
 * measurement is complete; its result is bytes_per_second, and 0 means that there is no result. */
bool mr_redis_measure_finish(struct mr_redis_measure *measure, const struct mr_redis_port *port,
                             uint64_t now_ns);

#endif
