/* clock - the only place that reads the clocks. Code below worker/ gets now_ns as an argument.
 *
 * Threads: any. Memory: none. Errors: none. */
#ifndef MR_WORKER_BASE_CLOCK_H
#define MR_WORKER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* One moment on both clocks, the argument of a step function (worker/base/thread.h). */
struct mr_time {
    uint64_t ns;     /* monotonic, from an unknown start */
    int64_t unix_ms; /* may jump */
};

struct mr_time mr_clock_now(void);
/* A unix time as a monotonic one, by the two readings of `now`; a time that is past is now->ns, 0
 * (none) stays 0. Pure. */
uint64_t mr_time_from_unix_ms(const struct mr_time *now, int64_t unix_ms);

/* Monotonic nanoseconds from an unknown start, for intervals and deadlines in this process. */
uint64_t mr_clock_ns(void);
/* Unix milliseconds, for times compared with those of other machines. May jump. */
int64_t mr_clock_unix_ms(void);
/* A unix time as a moment of the monotonic clock, by both clocks' present readings; a time that is
 * past is mr_clock_ns() now, 0 (none) stays 0. */
uint64_t mr_clock_from_unix_ms(int64_t unix_ms);
/* Nanoseconds as a timespec: a duration, or a time of mr_clock_ns() for waits on CLOCK_MONOTONIC.
 */
struct timespec mr_clock_timespec(uint64_t ns);
/* Milliseconds from now_ns until deadline_ns, rounded up; 0: the deadline has passed. At most
 * INT32_MAX, so that poll() and librdkafka accept the value. */
uint32_t mr_clock_left_ms(uint64_t now_ns, uint64_t deadline_ns);

#endif
