/* bench_compare - compares two benchmarks by the files that --output wrote: each number that both
 * have, old and new, and the change in percent.
 *
 * Threads: any. Memory: both files, at most MR_BENCH_COMPARE_BYTES_MAX each. Errors: MR_BAD_CONFIG
 * for a file that cannot be read or does not hold a JSON object, or a page that cannot be written.
 */
#ifndef MR_WORKER_BENCH_BENCH_COMPARE_H
#define MR_WORKER_BENCH_BENCH_COMPARE_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

#define MR_BENCH_COMPARE_BYTES_MAX ((size_t)8 << 20)

/* Compares the two files of config->arguments: prints to `table`, and writes a page to
 * config->report unless that is "". */
enum mr_status mr_bench_compare(const struct mr_config *config, FILE *table, struct mr_error *err);

#endif
