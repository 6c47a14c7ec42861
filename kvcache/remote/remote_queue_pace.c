/* The measured rate of loads, and the limit on their bytes in flight.
 *
 * Bytes in flight are wasted when their load is cancelled, and before it sends the first byte Redis
 * copies every requested value into memory that may be new to Redis. So the limit is
 * MR_LOAD_AHEAD_FIRST when nothing is in flight, and grows with the bytes received: up to the bytes
 * that arrive within MR_LOAD_AHEAD_NS at the measured rate, and to MR_LOAD_AHEAD_BYTES at most. A
 * connection may always request one more slice if all others have no bytes in flight. */
#include "kvcache/remote/remote_queue_state.h"

#include "codec/check.h"

#define MEASURE_GAP_NS ((uint64_t)30 * 1000000000)
#define NEW_SHARE      0.3 /* weight of a new bandwidth measurement in the running mean */
/* bytes received up to this many times more slowly than the mean are still treated as full progress
 */
#define TRICKLE 8.0

void mr_load_pace_init(struct mr_load_pace *pace)
{
    *pace = (struct mr_load_pace){.limit_bytes = MR_LOAD_AHEAD_FIRST};
}

bool mr_load_pace_allows(const struct mr_load_pace *pace, uint32_t thread, uint64_t bytes)
{
    double rate = pace->bytes_per_second, ahead = rate * (double)MR_LOAD_AHEAD_NS / 1e9;
    if (rate == 0 || ahead > (double)pace->limit_bytes) ahead = (double)pace->limit_bytes;
    return pace->in_flight_bytes == pace->in_flight[thread] ||
           (double)(pace->in_flight_bytes + bytes) <= ahead;
}

void mr_load_pace_request(struct mr_load_pace *pace, uint32_t thread, uint64_t bytes,
                          uint64_t now_ns)
{
    if (pace->in_flight_bytes == 0) pace->received_ns = now_ns;
    pace->in_flight_bytes += bytes;
    pace->in_flight[thread] += bytes;
}

void mr_load_pace_finish(struct mr_load_pace *pace, uint32_t thread, uint64_t bytes)
{
    pace->in_flight_bytes -= bytes;
    pace->in_flight[thread] -= bytes;
    pace->limit_bytes += bytes;
    if (pace->in_flight_bytes == 0) pace->limit_bytes = MR_LOAD_AHEAD_FIRST;
    if (pace->limit_bytes > MR_LOAD_AHEAD_BYTES) pace->limit_bytes = MR_LOAD_AHEAD_BYTES;
}

/* Moves received_ns, the time of the last progress, towards now_ns. Bytes that arrive much more
 * slowly than the measured rate move received_ns by only TRICKLE times the time that they would
 * have taken at that rate: so after a while a trickle looks like a server that sends nothing. */
void mr_load_pace_receive(struct mr_load_pace *pace, uint64_t bytes, uint64_t now_ns)
{
    uint64_t since = now_ns > pace->received_ns ? now_ns - pace->received_ns : 0;
    double rate = pace->bytes_per_second, since_ns = (double)since;
    double worth_ns = rate > 0 ? TRICKLE * 1e9 * (double)bytes / rate : since_ns;
    pace->received_ns += worth_ns < since_ns ? (uint64_t)worth_ns : since;
}

void mr_load_pace_measure(struct mr_load_pace *pace, double bytes_per_second, uint64_t now_ns)
{
    double before = pace->bytes_per_second;
    pace->bytes_per_second =
        before > 0 ? before + NEW_SHARE * (bytes_per_second - before) : bytes_per_second;
    pace->measured_ns = now_ns;
}

void mr_load_pace_lookup_took(struct mr_load_pace *pace, uint64_t took_ns)
{
    uint64_t before = pace->round_trip_ns;
    pace->round_trip_ns = before ? (7 * before + took_ns) / 8 : took_ns;
}

bool mr_load_pace_is_stale(const struct mr_load_pace *pace, uint64_t lookup_ns, uint64_t now_ns)
{
    return pace->measured_ns == 0 ||
           (lookup_ns > pace->measured_ns && now_ns - pace->measured_ns > MEASURE_GAP_NS);
}

void mr_load_pace_check(const struct mr_load_pace *pace)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MR_REMOTE_THREADS_MAX; i++)
        sum += pace->in_flight[i];
    MR_ASSERT(sum == pace->in_flight_bytes);
}
