/* process_metrics - CPU time, memory, files and threads of this process, under the names of
 * Prometheus' client libraries (process_*), read from /proc when the page is rendered.
 *
 * Threads: any (no state). Memory: none. Errors: a value that /proc does not have is
 * left out. */
#ifndef MR_WORKER_METRICS_PROCESS_METRICS_H
#define MR_WORKER_METRICS_PROCESS_METRICS_H

#include <stdio.h>

void mr_process_metrics_print(FILE *out);

#endif
