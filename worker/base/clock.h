/* clock - the only file that reads the system's clocks. Code outside worker/ gets the time as an
 * argument, now_ns.
 *
 * Threads: any. Memory: none. Errors: none. */
#ifndef MR_WORKER_BASE_CLOCK_H
#define MR_WORKER_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* One moment as read from both clocks; a step function gets it as its argument
 * (worker/base/thread.h). */
struct mr_time {
    uint64_t ns;     /* monotonic clock: nanoseconds since an unknown start */
    int64_t unix_ms; /* wall clock: milliseconds since 1970; may jump */
};

struct mr_time mr_clock_now(void);
/* Converts a unix time to a time of the monotonic clock, by the two clock readings in `now`. A time
 * in the past becomes now->ns; 0, which means no time, stays 0. Reads no clock. */
uint64_t mr_time_from_unix_ms(const struct mr_time *now, int64_t unix_ms);

/* The monotonic clock: nanoseconds since an unknown start, for durations and deadlines in this
 * process. */
uint64_t mr_clock_ns(void);
/* The wall clock: milliseconds since 1970, for times that are compared with those of other
 * machines. May jump. */
int64_t mr_clock_unix_ms(void);
/* Converts nanoseconds to a timespec: a duration, or a time of mr_clock_ns(). */
struct timespec mr_clock_timespec(uint64_t ns);
/* Waits like pthread_cond_wait, at most until the monotonic time until_ns; false: that time has
 * come. The condition needs no attribute. */
bool mr_clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until_ns);
/* Sleeps, in a thread that may block. */
void mr_clock_sleep_ms(uint32_t ms);
/* Milliseconds from now_ns until deadline_ns, rounded up; 0: the deadline has passed. At most
 * INT32_MAX, so that poll() and librdkafka accept the value. */
uint32_t mr_clock_left_ms(uint64_t now_ns, uint64_t deadline_ns);

#endif
