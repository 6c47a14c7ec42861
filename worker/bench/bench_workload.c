#include "worker/bench/bench_workload.h"

#include <math.h>
#include <stdio.h>

enum { MIX_PROMPT_MIN = 32, MIX_STRIDE = 395, ID_BYTES = 32 };

uint64_t mr_bench_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Returns the prompt length of a request of the mix. The stride is coprime to the number of
 * lengths, so no length repeats before all lengths have occurred. */
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

/* Seed of a separate random stream for each purpose and each request. */
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

/* Samples the exponential distribution by inverting its cumulative distribution function, with a
 * random u in (0, 1]. */
uint64_t mr_bench_workload_gap_ns(const struct mr_bench_workload *workload, uint32_t number)
{
    if (workload->rate <= 0) return 0;
    uint64_t state = stream_of(workload->seed, UINT64_MAX, number);
    /* 9007199254740992 is 2^53 */
    double u = ((double)(mr_bench_random(&state) >> 11) + 1) / 9007199254740992.0;
    return (uint64_t)(-log(u) / workload->rate * 1e9);
}

struct mr_request *mr_bench_workload_request(const char *name, uint32_t number,
                                             uint32_t token_count, uint32_t output_tokens,
                                             uint32_t **ids)
{
    struct mr_arena *arena = mr_arena_create((size_t)1 << 20);
    struct mr_request *request = arena ? mr_arena_take(arena, sizeof *request) : NULL;
    *ids = request ? mr_arena_take_array(arena, token_count, sizeof **ids) : NULL;
    char *id = *ids ? mr_arena_take(arena, ID_BYTES) : NULL;
    if (!id) {
        mr_arena_destroy(arena);
        return NULL;
    }
    int length = snprintf(id, ID_BYTES, "%s-%u", name, number);
    *request = (struct mr_request){.arena = arena,
                                   .id = {id, (size_t)length},
                                   .token_ids = *ids,
                                   .token_count = token_count,
                                   .has_token_ids = true,
                                   .max_tokens = output_tokens,
                                   .ignore_eos = true,
                                   .cache_read = true,
                                   .cache_write = true,
                                   .choice_count = 1};
    request->sampling =
        (struct mr_sampling){.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = -1};
    return request;
}
