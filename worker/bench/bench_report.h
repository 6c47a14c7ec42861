/* bench_report - prints the figures of a fleet benchmark as text with the labels of `vllm bench
 * serve`, because parsers of that text exist, and as a JSON object with vLLM's names (mean_ttft_ms,
 * output_throughput and so on) and more percentiles.
 *
 * Threads: any (pure functions). Memory: none kept.
 * Errors:  MR_BAD_CONFIG for a file that cannot be written, MR_NOMEM. */
#ifndef MR_WORKER_BENCH_BENCH_REPORT_H
#define MR_WORKER_BENCH_BENCH_REPORT_H

#include "worker/bench/bench_results.h"

#include <stdio.h>

void mr_bench_report_print(const struct mr_bench_figures *figures,
                           const struct mr_bench_setting *setting, FILE *out);
/* Prints each objective with the measured value; for a sweep also a line for each run and the
 * highest rate. */
void mr_bench_report_print_objectives(const struct mr_bench_results *results, FILE *out);
/* Writes one run as an object with its figures, a sweep as an object with the figures of the run
 * with the highest rate that met the objectives, and all `runs`. */
enum mr_status mr_bench_report_write(const struct mr_bench_results *results, const char *path,
                                     struct mr_error *err);

#endif
