/* bench_report - the figures of a fleet benchmark for people and programs: the block that `vllm
 * bench serve` prints, label for label, because parsers of it exist; and one JSON object with its
 * names (mean_ttft_ms, output_throughput ...) and more percentiles.
 *
 * Threads: any (pure functions on what is given). Memory: none kept.
 * Errors:  MR_BAD_CONFIG for a file that cannot be written, MR_NOMEM. */
#ifndef MR_WORKER_BENCH_BENCH_REPORT_H
#define MR_WORKER_BENCH_BENCH_REPORT_H

#include "worker/bench/bench_tally.h"

#include <stdio.h>

/* How the figures came about. */
struct mr_bench_setting {
    uint32_t concurrency; /* 0: no limit */
    double rate;          /* 0: all at once */
    bool stream;          /* without token records there are no token times */
};

void mr_bench_report_print(const struct mr_bench_figures *figures,
                           const struct mr_bench_setting *setting, FILE *out);
enum mr_status mr_bench_report_write(const struct mr_bench_figures *figures,
                                     const struct mr_bench_setting *setting, const char *path,
                                     struct mr_error *err);

#endif
