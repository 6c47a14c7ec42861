/* tracer_metrics - the tracer's statistics as Prometheus text.
 *
 * Threads: any. Memory: the text is reallocated as it grows. Errors: MR_NOMEM. */
#ifndef MR_WORKER_TRACE_TRACER_METRICS_H
#define MR_WORKER_TRACE_TRACER_METRICS_H

#include "worker/trace/tracer.h"

/* Appends the metrics to the page *text, a malloc'ed text of *length bytes; both are updated. */
enum mr_status mr_tracer_metrics_append(const struct mr_tracer_stats *stats, char **text,
                                        size_t *length, struct mr_error *err);

#endif
