/* tier_measure - measures the bandwidth of a connection before any block has been loaded: sends 1
 * MiB with ECHO and times the reply, a few times, and keeps the best rate.
 *
 * Owner: one connection thread. Memory: 1 MiB, on first use. Errors: none; without memory nothing
 * is measured. Clock: passed in. */
#ifndef MR_WORKER_REDIS_TIER_MEASURE_H
#define MR_WORKER_REDIS_TIER_MEASURE_H

#include "worker/redis/redis_port.h"

#define MR_TIER_MEASURE_BYTES  ((size_t)1 << 20)
#define MR_TIER_MEASURE_GAP_NS ((uint64_t)30 * 1000000000) /* between two measurements */

struct mr_tier_measure {
    struct mr_redis_op op; /* op.owner: this struct */
    char text[48];
    void *bytes; /* [MR_TIER_MEASURE_BYTES] */
    uint64_t begun_ns, next_ns;
    uint32_t rounds;         /* finished; a slow one counts twice */
    double bytes_per_second; /* best so far */
    bool active;
};

/* Zeroed is ready for use. Frees the memory; no round is in flight. */
void mr_tier_measure_end(struct mr_tier_measure *measure);
/* Starts a measurement unless one is active or the last one began less than the gap ago. */
void mr_tier_measure_begin(struct mr_tier_measure *measure, const struct mr_redis_port *port,
                           uint64_t now_ns);
/* A round's op came back: starts the next round. True: the measurement is complete, with a result
 * in bytes_per_second unless that is 0. */
bool mr_tier_measure_finish(struct mr_tier_measure *measure, const struct mr_redis_port *port,
                            uint64_t now_ns);

#endif
