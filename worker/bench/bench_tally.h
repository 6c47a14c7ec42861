/* bench_tally - times of the requests of a benchmark (sent, token records, result) and the figures
 * computed from them, as `vllm bench serve` defines them.
 *
 * All times are the client's. TTFT: from sending a request to its first token record. ITL (a gap):
 * time between two token records of a request. TPOT: time after the first token divided by the
 * number of further tokens. Only successful requests count.
 *
 * A series divides a run into equal intervals, for charts over time.
 *
 * Owner:  one thread. Memory: allocated in _create, 16 bytes a gap; gaps beyond gaps_max are
 * counted but not stored. Errors: MR_NOMEM. Records of unknown requests, duplicates, and
 * records of an attempt older than the latest one seen of the request are ignored. */
#ifndef MR_WORKER_BENCH_BENCH_TALLY_H
#define MR_WORKER_BENCH_BENCH_TALLY_H

#include "codec/records/result.h"

/* Statistics of a series of values; all fields are 0 when count is 0. */
struct mr_bench_summary {
    size_t count;
    double mean, std, min, median, p75, p90, p95, p99, max;
};

#define MR_BENCH_FAILURE_BYTES ((size_t)200)

struct mr_bench_figures {
    uint32_t completed, failed, peak_concurrent;
    char first_failure[MR_BENCH_FAILURE_BYTES]; /* reason of the first failed request; "": none
                                                   failed */
    double duration_s; /* time from sending the first request to the last result */
    uint64_t input_tokens, output_tokens;
    double request_throughput, output_throughput, peak_output_throughput, total_throughput;
    struct mr_bench_summary ttft_ms, tpot_ms, itl_ms, e2el_ms;
    /* Times that the workers measured: in the queue, in prefill, longest gap between two tokens. */
    struct mr_bench_summary queue_ms, prefill_ms, worker_itl_max_ms;
    /* gaps between token records beyond gaps_max: counted, but not stored */
    uint64_t gaps_left_out;
};

/* One interval of a run. A time is NaN where no value was measured in the interval. */
struct mr_bench_point {
    double at_s; /* middle of the interval, from the first request on */
    double output_tokens_per_s, requests_per_s, in_flight;
    double ttft_median_ms, ttft_p90_ms, ttft_p99_ms; /* of the first tokens in the interval */
    double itl_median_ms, itl_p90_ms, itl_p99_ms;    /* of the gaps that end in the interval */
};

struct mr_bench_tally;

enum mr_status mr_bench_tally_create(struct mr_bench_tally **out, uint32_t request_count,
                                     size_t gaps_max, struct mr_error *err);
/* tally may be NULL. */
void mr_bench_tally_destroy(struct mr_bench_tally *tally);

/* number: the request's index, below request_count. Call once for each request, when it is sent. */
void mr_bench_tally_sent(struct mr_bench_tally *tally, uint32_t number, uint64_t now_ns);
void mr_bench_tally_tokens(struct mr_bench_tally *tally, uint32_t number,
                           const struct mr_token_record *record, uint64_t now_ns);
void mr_bench_tally_result(struct mr_bench_tally *tally, uint32_t number,
                           const struct mr_result *result, uint64_t now_ns);

uint32_t mr_bench_tally_in_flight(const struct mr_bench_tally *tally);
/* Number of requests that have finished or failed. */
uint32_t mr_bench_tally_ended(const struct mr_bench_tally *tally);
uint64_t mr_bench_tally_tokens_seen(const struct mr_bench_tally *tally);

/* Computes all figures; requests without a result are treated as failed. Returns MR_OK or MR_NOMEM.
 */
enum mr_status mr_bench_tally_figures(const struct mr_bench_tally *tally,
                                      struct mr_bench_figures *out, struct mr_error *err);

/* Fills points[count] with the intervals of the run. Only successful requests count. Tokens count
 * when their record arrives, without token records when the result does. MR_OK or MR_NOMEM. */
enum mr_status mr_bench_tally_series(const struct mr_bench_tally *tally,
                                     struct mr_bench_point *points, size_t count,
                                     struct mr_error *err);

/* Sorts values and summarizes them. Percentiles are interpolated linearly, as numpy does. */
struct mr_bench_summary mr_bench_summarize(double *values, size_t count);

/* Asserts that the counts match the states of the requests. */
void mr_bench_tally_check(const struct mr_bench_tally *tally);

#endif
