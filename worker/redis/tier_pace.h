/* tier_pace - how fast loads are received, and how many bytes of them may be in flight.
 *
 * Bytes in flight are wasted when their load is cancelled. Redis also copies everything it was
 * asked for, into memory that may be new to it, before it sends the first byte. So a load starts
 * with MR_TIER_AHEAD_FIRST bytes in flight, and the limit grows with the bytes received: up to what
 * arrives within MR_TIER_AHEAD_NS at the measured rate, and MR_TIER_AHEAD_BYTES at most. A
 * connection with nothing in flight may always request one value.
 *
 * Owner: the queue, under its lock. Memory, errors: none. Clock: passed in. */
#ifndef MR_WORKER_REDIS_TIER_PACE_H
#define MR_WORKER_REDIS_TIER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_TIER_THREADS_MAX 17u
#define MR_TIER_AHEAD_NS    ((uint64_t)20000000)
#define MR_TIER_AHEAD_BYTES ((uint64_t)16 << 20)
#define MR_TIER_AHEAD_FIRST (MR_TIER_AHEAD_BYTES / 4)

struct mr_tier_pace {
    uint64_t in_flight[MR_TIER_THREADS_MAX]; /* bytes of values requested, by thread */
    uint64_t in_flight_bytes;                /* of all threads */
    uint64_t limit_bytes;
    uint64_t received_ns;    /* as in struct mr_tier_rates (kvcache/tier.h) */
    double bytes_per_second; /* running mean; 0: not known */
    uint64_t measured_ns;    /* when the rate was last updated */
    uint64_t round_trip_ns;  /* running mean of lookups; 0: not known */
};

void mr_tier_pace_init(struct mr_tier_pace *pace);
/* Whether this thread may request a value of so many bytes now. */
bool mr_tier_pace_allows(const struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes);
void mr_tier_pace_request(struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes,
                          uint64_t now_ns);
/* A requested value was received or will not be. */
void mr_tier_pace_finish(struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes);
/* Some bytes of values were received. */
void mr_tier_pace_receive(struct mr_tier_pace *pace, uint64_t bytes, uint64_t now_ns);
/* A load or a measurement had this rate. */
void mr_tier_pace_measure(struct mr_tier_pace *pace, double bytes_per_second, uint64_t now_ns);
void mr_tier_pace_lookup_took(struct mr_tier_pace *pace, uint64_t took_ns);
/* Whether a measurement is due: none was made yet, or the last one is old and a lookup was posted
 * since, at lookup_ns. */
bool mr_tier_pace_is_stale(const struct mr_tier_pace *pace, uint64_t lookup_ns, uint64_t now_ns);
/* Asserts the sum of the bytes in flight. */
void mr_tier_pace_check(const struct mr_tier_pace *pace);

#endif
