/* bench_workload - the requests of the benchmarks: lengths, token ids and arrival times as
 * functions of a seed, so that the engine and a fleet can run the same requests.
 *
 * Threads: any (pure functions). Memory: only _request allocates; only _request can
 * fail. */
#ifndef MR_WORKER_BENCH_BENCH_WORKLOAD_H
#define MR_WORKER_BENCH_BENCH_WORKLOAD_H

#include "codec/records/request.h"

#include <stdbool.h>
#include <stdint.h>

/* The mix has prompts of 32 to 512 tokens and answers of 64 tokens. Its first 64 prompts have
 * 17,705 tokens together; tests/bench/peers/workload.py has the same lengths. */
#define MR_BENCH_MIX_PROMPT_MAX    512u
#define MR_BENCH_MIX_OUTPUT_TOKENS 64u

struct mr_bench_workload {
    uint64_t seed;
    /* number mixed into the seed of the token ids: another salt gives other ids, same lengths */
    uint64_t salt;
    bool mix;
    uint32_t prompt_tokens, output_tokens; /* lengths of every request; not used if mix */
    double rate;                           /* requests per second; 0: all at once */
};

/* Returns the next value of the splitmix64 random generator (Steele, Lea and Flood, 2014). */
uint64_t mr_bench_random(uint64_t *state);

uint32_t mr_bench_workload_prompt_tokens(const struct mr_bench_workload *workload, uint32_t number);
uint32_t mr_bench_workload_prompt_tokens_max(const struct mr_bench_workload *workload);
uint32_t mr_bench_workload_output_tokens(const struct mr_bench_workload *workload);
/* Fills ids[count] with the prompt of request `number`: random token ids below vocab_size (> 0). */
void mr_bench_workload_fill(const struct mr_bench_workload *workload, uint32_t number,
                            uint32_t vocab_size, uint32_t *ids, uint32_t count);
/* Creates the request with id "NAME-NUMBER", token_count prompt ids, which the caller then writes
 * to *ids, and output_tokens output tokens: greedy sampling, caches on. NULL: out of memory. */
struct mr_request *mr_bench_workload_request(const char *name, uint32_t number,
                                             uint32_t token_count, uint32_t output_tokens,
                                             uint32_t **ids);
/* Time between the arrivals of requests `number` and `number` + 1, as in a Poisson process. */
uint64_t mr_bench_workload_gap_ns(const struct mr_bench_workload *workload, uint32_t number);

#endif
