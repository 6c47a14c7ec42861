/* bench_report - prints the figures of a fleet benchmark: as the text that `vllm bench serve`
 * prints, with the same labels, because parsers of that text exist; and as a JSON object with
 * vLLM's names (mean_ttft_ms, output_throughput and so on) and more percentiles.
 *
 * Threads: any (pure functions). Memory: none kept.
 * Errors:  MR_BAD_CONFIG for a file that cannot be written, MR_NOMEM. */
#ifndef MR_WORKER_BENCH_BENCH_REPORT_H
#define MR_WORKER_BENCH_BENCH_REPORT_H

#include "worker/bench/bench_tally.h"

#include <stdio.h>

/* The settings of a run, for its report. */
struct mr_bench_setting {
    uint32_t concurrency; /* most requests in flight; 0: no limit */
    double rate;          /* requests sent per second; 0: all at once */
    bool stream; /* false: the workers write no token records, so token times are unknown */
};

void mr_bench_report_print(const struct mr_bench_figures *figures,
                           const struct mr_bench_setting *setting, FILE *out);
enum mr_status mr_bench_report_write(const struct mr_bench_figures *figures,
                                     const struct mr_bench_setting *setting, const char *path,
                                     struct mr_error *err);

#endif
