/* bench_workload - what the benchmarks ask for: lengths, token ids and arrival times, the same for
 * the same seed, so that the engine alone and a fleet can be given the same work.
 *
 * Threads: any (values only). Memory: _request's. Errors: only _request can fail. */
#ifndef MR_WORKER_BENCH_BENCH_WORKLOAD_H
#define MR_WORKER_BENCH_BENCH_WORKLOAD_H

#include "codec/records/request.h"

#include <stdbool.h>
#include <stdint.h>

/* The mix: prompts of 32 to 512 tokens, answers of 64. The first 64 prompts have 17,705 tokens in
 * all; tests/bench/peers/workload.py has the same lengths. */
#define MR_BENCH_MIX_PROMPT_MAX    512u
#define MR_BENCH_MIX_OUTPUT_TOKENS 64u

struct mr_bench_workload {
    uint64_t seed;
    uint64_t salt; /* stirred into the token ids: another salt, another prompt of the same length */
    bool mix;
    uint32_t prompt_tokens, output_tokens; /* unless mix */
    double rate;                           /* arrivals a second; 0: all at once */
};

/* The next value of splitmix64 (Steele, Lea and Flood, 2014). */
uint64_t mr_bench_random(uint64_t *state);

uint32_t mr_bench_workload_prompt_tokens(const struct mr_bench_workload *workload, uint32_t number);
uint32_t mr_bench_workload_prompt_tokens_max(const struct mr_bench_workload *workload);
uint32_t mr_bench_workload_output_tokens(const struct mr_bench_workload *workload);
/* ids [count], each below vocab_size (> 0), of request `number`. */
void mr_bench_workload_fill(const struct mr_bench_workload *workload, uint32_t number,
                            uint32_t vocab_size, uint32_t *ids, uint32_t count);
/* Request "NAME-NUMBER", greedy, of token_count ids at *ids that the caller fills; it answers
 * output_tokens, and uses the caches. NULL: no memory. */
struct mr_request *mr_bench_workload_request(const char *name, uint32_t number,
                                             uint32_t token_count, uint32_t output_tokens,
                                             uint32_t **ids);
/* Nanoseconds between arrivals `number` and `number` + 1 of a Poisson process. */
uint64_t mr_bench_workload_gap_ns(const struct mr_bench_workload *workload, uint32_t number);

#endif
