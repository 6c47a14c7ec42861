/* bench_page - the figures of a fleet benchmark as one self-contained HTML page: tables and charts
 * in SVG, without a script and without anything from a network.
 *
 * Threads: any. Memory: none kept. Errors: MR_BAD_CONFIG for a file that cannot be written. */
#ifndef MR_WORKER_BENCH_BENCH_PAGE_H
#define MR_WORKER_BENCH_BENCH_PAGE_H

#include "worker/bench/bench_results.h"

#include <stdio.h>

/* The page of one run: figures, throughput, requests in flight, TTFT and ITL over time. Of a sweep:
 * throughput, TTFT and ITL against the rate, and over time in the run with the highest rate that
 * met the objectives, or the last. */
enum mr_status mr_bench_page_write(const struct mr_bench_results *results, const char *path,
                                   struct mr_error *err);

/* The frame of a page: its text before and after the content. */
void mr_bench_page_begin(const char *headline, FILE *out);
void mr_bench_page_end(FILE *out);

#endif
