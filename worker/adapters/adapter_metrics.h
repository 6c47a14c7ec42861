/* adapter_metrics - the statistics of the adapters as Prometheus text, appended to the page of
 * worker/metrics/metrics.h.
 *
 * Threads: any. Memory: the text is reallocated as it grows. Errors: MR_NOMEM. */
#ifndef MR_WORKER_ADAPTERS_ADAPTER_METRICS_H
#define MR_WORKER_ADAPTERS_ADAPTER_METRICS_H

#include "worker/adapters/adapters.h"

/* Most adapters with a line of their own; the requests of the others are counted together. */
#define MR_ADAPTER_LINES_MAX 64u

/* Appends the metrics to *text, a malloc'ed text of *length bytes; both are updated. */
enum mr_status mr_adapter_metrics_append(struct mr_adapters *adapters, char **text, size_t *length,
                                         struct mr_error *err);

#endif
