/* bench_tally - what a benchmark client saw: when each request was sent, when its tokens and its
 * result came; and the figures made of that, with the meaning they have in `vllm bench serve`.
 *
 * Times are the client's: TTFT from the request record to the first token record, ITL between the
 * token records of a request, TPOT the time behind the first token for each further one. Only
 * successful requests count in them.
 *
 * Owner:  one thread. Memory: all of it in _create; gaps beyond gaps_max are counted, not kept.
 * Errors: MR_NOMEM at creation. What comes for an unknown request, twice or from an attempt that
 *         was replaced is passed over. */
#ifndef MR_WORKER_BENCH_BENCH_TALLY_H
#define MR_WORKER_BENCH_BENCH_TALLY_H

#include "codec/records/result.h"

/* All 0 when count is 0. */
struct mr_bench_summary {
    size_t count;
    double mean, std, min, median, p75, p90, p95, p99, max;
};

struct mr_bench_figures {
    uint32_t completed, failed, peak_concurrent;
    double duration_s; /* first request to last result */
    uint64_t input_tokens, output_tokens;
    double request_throughput, output_throughput, peak_output_throughput, total_throughput;
    struct mr_bench_summary ttft_ms, tpot_ms, itl_ms, e2el_ms;
    /* As the workers measured it: time queued, prefill time, longest gap between two tokens. */
    struct mr_bench_summary queue_ms, prefill_ms, worker_itl_max_ms;
    uint64_t gaps_left_out;
};

struct mr_bench_tally;

enum mr_status mr_bench_tally_create(struct mr_bench_tally **out, uint32_t request_count,
                                     size_t gaps_max, struct mr_error *err);
/* tally may be NULL. */
void mr_bench_tally_destroy(struct mr_bench_tally *tally);

/* number < request_count of _create; each at most once. */
void mr_bench_tally_sent(struct mr_bench_tally *tally, uint32_t number, uint64_t now_ns);
void mr_bench_tally_tokens(struct mr_bench_tally *tally, uint32_t number,
                           const struct mr_token_record *record, uint64_t now_ns);
void mr_bench_tally_result(struct mr_bench_tally *tally, uint32_t number,
                           const struct mr_result *result, uint64_t now_ns);
/* The request could not be sent, or is given up. */
void mr_bench_tally_failed(struct mr_bench_tally *tally, uint32_t number, uint64_t now_ns);

uint32_t mr_bench_tally_in_flight(const struct mr_bench_tally *tally);
uint32_t mr_bench_tally_ended(const struct mr_bench_tally *tally); /* finished and failed */
uint64_t mr_bench_tally_tokens_seen(const struct mr_bench_tally *tally);

/* Requests without a result count as failed. MR_NOMEM. */
enum mr_status mr_bench_tally_figures(const struct mr_bench_tally *tally,
                                      struct mr_bench_figures *out, struct mr_error *err);

/* Sorts values. Percentiles are interpolated between neighbours, as numpy does. */
struct mr_bench_summary mr_bench_summarize(double *values, size_t count);

/* Asserts what holds always: every request is in one state, and the states add up. */
void mr_bench_tally_check(const struct mr_bench_tally *tally);

#endif
