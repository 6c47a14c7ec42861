/* tier_pace - how fast loads from Redis are received, and how many bytes of loads may be in flight
 * (requested and not received).
 *
 * Bytes in flight are wasted when their load is cancelled. Redis also copies every value it was
 * asked for, into memory that may be new to Redis, before it sends the first byte. So when nothing
 * is in flight the limit is MR_TIER_AHEAD_FIRST bytes, and it grows with the bytes received: up to
 * what arrives within MR_TIER_AHEAD_NS at the measured rate, and to MR_TIER_AHEAD_BYTES at most. If
 * no other connection has bytes in flight, a connection may always request one more value.
 *
 * Owner: the queue, under its lock. Memory, errors: none. Clock: passed in. */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_PACE_H
#define MR_WORKER_REMOTE_CACHE_TIER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_TIER_THREADS_MAX 17u
#define MR_TIER_AHEAD_NS    ((uint64_t)20000000)
#define MR_TIER_AHEAD_BYTES ((uint64_t)16 << 20)
#define MR_TIER_AHEAD_FIRST (MR_TIER_AHEAD_BYTES / 4)

struct mr_tier_pace {
    /* by connection thread: bytes of values requested from Redis and not yet received */
    uint64_t in_flight[MR_TIER_THREADS_MAX];
    uint64_t in_flight_bytes; /* sum of in_flight over all connection threads */
    uint64_t limit_bytes;
    /* when bytes of a load last arrived at a useful rate, as in struct mr_tier_rates
     * (kvcache/tier.h) */
    uint64_t received_ns;
    double bytes_per_second; /* running mean of the bandwidth of loads; 0: not known yet */
    uint64_t measured_ns;    /* when bytes_per_second was last updated */
    uint64_t round_trip_ns;  /* running mean of the time that a lookup takes; 0: not known yet */
};

void mr_tier_pace_init(struct mr_tier_pace *pace);
/* Whether this connection thread may request a value of this many bytes from Redis now. */
bool mr_tier_pace_allows(const struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes);
void mr_tier_pace_request(struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes,
                          uint64_t now_ns);
/* Call it when a requested value was received, or will not be received any more. */
void mr_tier_pace_finish(struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes);
/* Call it when bytes of values were received from Redis. */
void mr_tier_pace_receive(struct mr_tier_pace *pace, uint64_t bytes, uint64_t now_ns);
/* Adds a bandwidth to the running mean; the bandwidth comes from a finished load or from a
 * measurement with ECHO. */
void mr_tier_pace_measure(struct mr_tier_pace *pace, double bytes_per_second, uint64_t now_ns);
void mr_tier_pace_lookup_took(struct mr_tier_pace *pace, uint64_t took_ns);
/* Whether the bandwidth has to be measured with ECHO: it was never measured, or the last time is
 * long ago and a lookup was posted since then. lookup_ns: when the last lookup was posted. */
bool mr_tier_pace_is_stale(const struct mr_tier_pace *pace, uint64_t lookup_ns, uint64_t now_ns);
/* Asserts that in_flight_bytes is the sum of in_flight. */
void mr_tier_pace_check(const struct mr_tier_pace *pace);

#endif
