#include "kvcache/remote/redis_client_state.h"

void mr_redis_breaker_init(struct mr_redis_breaker *breaker, uint64_t seed)
{
    *breaker = (struct mr_redis_breaker){.random = seed};
}

/* Next random number: splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(struct mr_redis_breaker *breaker)
{
    uint64_t z = breaker->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t wait_after(struct mr_redis_breaker *breaker)
{
    uint64_t wait_ns = MR_BREAKER_WAIT_MIN_NS;
    for (uint32_t i = 1; i < breaker->failures && wait_ns < MR_BREAKER_WAIT_MAX_NS; i++)
        wait_ns *= 2;
    if (wait_ns > MR_BREAKER_WAIT_MAX_NS) wait_ns = MR_BREAKER_WAIT_MAX_NS;
    return wait_ns / 2 + draw(breaker) % (wait_ns / 2);
}

bool mr_redis_breaker_allows(struct mr_redis_breaker *breaker, uint64_t now_ns)
{
    if (breaker->state == MR_BREAKER_HALF_OPEN || now_ns < breaker->retry_ns) return false;
    if (breaker->state == MR_BREAKER_OPEN) breaker->state = MR_BREAKER_HALF_OPEN;
    return true;
}

void mr_redis_breaker_succeeded(struct mr_redis_breaker *breaker)
{
    breaker->state = MR_BREAKER_CLOSED;
    breaker->failures = 0;
    breaker->retry_ns = 0;
}

void mr_redis_breaker_failed(struct mr_redis_breaker *breaker, uint64_t now_ns)
{
    if (breaker->failures < UINT32_MAX) breaker->failures++;
    breaker->retry_ns = now_ns + wait_after(breaker);
    if (breaker->failures < MR_BREAKER_FAILURES) return;
    if (breaker->state == MR_BREAKER_CLOSED) breaker->openings++;
    breaker->state = MR_BREAKER_OPEN;
}
