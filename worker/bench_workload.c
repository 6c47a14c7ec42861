#include "worker/bench_workload.h"

#include <math.h>

enum { MIX_PROMPT_MIN = 32, MIX_STRIDE = 395 };

uint64_t mr_bench_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* The stride is prime to the number of lengths: every length comes once before any comes twice. */
uint32_t mr_bench_workload_prompt_tokens(const struct mr_bench_workload *workload, uint32_t number)
{
    if (!workload->mix) return workload->prompt_tokens;
    uint32_t lengths = MR_BENCH_MIX_PROMPT_MAX - MIX_PROMPT_MIN + 1;
    return MIX_PROMPT_MIN + number % lengths * MIX_STRIDE % lengths;
}

uint32_t mr_bench_workload_prompt_tokens_max(const struct mr_bench_workload *workload)
{
    return workload->mix ? MR_BENCH_MIX_PROMPT_MAX : workload->prompt_tokens;
}

uint32_t mr_bench_workload_output_tokens(const struct mr_bench_workload *workload)
{
    return workload->mix ? MR_BENCH_MIX_OUTPUT_TOKENS : workload->output_tokens;
}

/* A stream of its own for each purpose and request. */
static uint64_t stream_of(uint64_t seed, uint64_t purpose, uint32_t number)
{
    uint64_t state = seed;
    uint64_t mixed = mr_bench_random(&state) ^ purpose;
    return mr_bench_random(&mixed) + number;
}

void mr_bench_workload_fill(const struct mr_bench_workload *workload, uint32_t number,
                            uint32_t vocab_size, uint32_t *ids, uint32_t count)
{
    uint64_t state = stream_of(workload->seed, workload->salt, 0) ^ ((uint64_t)number << 32);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = (uint32_t)(mr_bench_random(&state) % vocab_size);
}

/* Inverse of the exponential distribution's cumulative function; u in (0, 1]. */
uint64_t mr_bench_workload_gap_ns(const struct mr_bench_workload *workload, uint32_t number)
{
    if (workload->rate <= 0) return 0;
    uint64_t state = stream_of(workload->seed, UINT64_MAX, number);
    double u = ((double)(mr_bench_random(&state) >> 11) + 1) / 9007199254740992.0; /* 2^53 */
    return (uint64_t)(-log(u) / workload->rate * 1e9);
}
