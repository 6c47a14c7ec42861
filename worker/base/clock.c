#include "worker/base/clock.h"

#include "codec/check.h"

static struct timespec read_clock(clockid_t clock)
{
    struct timespec now;
    MR_ASSERT(clock_gettime(clock, &now) == 0);
    return now;
}

uint64_t mr_clock_ns(void)
{
    struct timespec now = read_clock(CLOCK_MONOTONIC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t mr_clock_unix_ms(void)
{
    struct timespec now = read_clock(CLOCK_REALTIME);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct mr_time mr_clock_now(void)
{
    return (struct mr_time){mr_clock_ns(), mr_clock_unix_ms()};
}

uint64_t mr_time_from_unix_ms(const struct mr_time *now, int64_t unix_ms)
{
    if (unix_ms == 0) return 0;
    int64_t ahead_ms = unix_ms - now->unix_ms;
    return ahead_ms > 0 ? now->ns + (uint64_t)ahead_ms * 1000000u : now->ns;
}

struct timespec mr_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

bool mr_clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t until_ns)
{
    struct timespec until = mr_clock_timespec(until_ns);
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &until) == 0;
}

void mr_clock_sleep_ms(uint32_t ms)
{
    struct timespec pause = mr_clock_timespec(ms * UINT64_C(1000000));
    nanosleep(&pause, NULL);
}

uint32_t mr_clock_left_ms(uint64_t now_ns, uint64_t deadline_ns)
{
    if (deadline_ns <= now_ns) return 0;
    uint64_t left_ms = (deadline_ns - now_ns - 1) / 1000000u + 1;
    return left_ms < INT32_MAX ? (uint32_t)left_ms : INT32_MAX;
}
