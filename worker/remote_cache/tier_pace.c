#include "worker/remote_cache/tier_pace.h"

#include "codec/check.h"

#define MEASURE_GAP_NS ((uint64_t)30 * 1000000000)
#define NEW_SHARE      0.3 /* weight of a new bandwidth measurement in the running mean */
/* bytes received up to this many times more slowly than the mean still count as full progress */
#define TRICKLE 8.0

void mr_tier_pace_init(struct mr_tier_pace *pace)
{
    *pace = (struct mr_tier_pace){.limit_bytes = MR_TIER_AHEAD_FIRST};
}

bool mr_tier_pace_allows(const struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes)
{
    double rate = pace->bytes_per_second, ahead = rate * (double)MR_TIER_AHEAD_NS / 1e9;
    if (rate == 0 || ahead > (double)pace->limit_bytes) ahead = (double)pace->limit_bytes;
    return pace->in_flight_bytes == pace->in_flight[thread] ||
           (double)(pace->in_flight_bytes + bytes) <= ahead;
}

void mr_tier_pace_request(struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes,
                          uint64_t now_ns)
{
    if (pace->in_flight_bytes == 0) pace->received_ns = now_ns;
    pace->in_flight_bytes += bytes;
    pace->in_flight[thread] += bytes;
}

void mr_tier_pace_finish(struct mr_tier_pace *pace, uint32_t thread, uint64_t bytes)
{
    pace->in_flight_bytes -= bytes;
    pace->in_flight[thread] -= bytes;
    pace->limit_bytes += bytes;
    if (pace->in_flight_bytes == 0) pace->limit_bytes = MR_TIER_AHEAD_FIRST;
    if (pace->limit_bytes > MR_TIER_AHEAD_BYTES) pace->limit_bytes = MR_TIER_AHEAD_BYTES;
}

/* Moves received_ns, the time of the last progress, towards now_ns. Bytes that arrive much more
 * slowly than the measured rate move received_ns by only TRICKLE times the time that they would
 * have taken at that rate: so after a while a trickle looks like a server that sends nothing. */
void mr_tier_pace_receive(struct mr_tier_pace *pace, uint64_t bytes, uint64_t now_ns)
{
    uint64_t since = now_ns > pace->received_ns ? now_ns - pace->received_ns : 0;
    double rate = pace->bytes_per_second, since_ns = (double)since;
    double worth_ns = rate > 0 ? TRICKLE * 1e9 * (double)bytes / rate : since_ns;
    pace->received_ns += worth_ns < since_ns ? (uint64_t)worth_ns : since;
}

void mr_tier_pace_measure(struct mr_tier_pace *pace, double bytes_per_second, uint64_t now_ns)
{
    double before = pace->bytes_per_second;
    pace->bytes_per_second =
        before > 0 ? before + NEW_SHARE * (bytes_per_second - before) : bytes_per_second;
    pace->measured_ns = now_ns;
}

void mr_tier_pace_lookup_took(struct mr_tier_pace *pace, uint64_t took_ns)
{
    uint64_t before = pace->round_trip_ns;
    pace->round_trip_ns = before ? (7 * before + took_ns) / 8 : took_ns;
}

bool mr_tier_pace_is_stale(const struct mr_tier_pace *pace, uint64_t lookup_ns, uint64_t now_ns)
{
    return pace->measured_ns == 0 ||
           (lookup_ns > pace->measured_ns && now_ns - pace->measured_ns > MEASURE_GAP_NS);
}

void mr_tier_pace_check(const struct mr_tier_pace *pace)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MR_TIER_THREADS_MAX; i++)
        sum += pace->in_flight[i];
    MR_ASSERT(sum == pace->in_flight_bytes);
}
