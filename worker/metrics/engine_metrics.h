/* engine_metrics - the engine's statistics as Prometheus text: one table maps the fields of struct
 * mr_engine_stats to metrics.
 *
 * Threads: any (no state). Memory: none. Errors: those of the stream, which its owner checks. */
#ifndef MR_WORKER_METRICS_ENGINE_METRICS_H
#define MR_WORKER_METRICS_ENGINE_METRICS_H

#include "batching/engine/engine.h"

#include <stdio.h>

void mr_engine_metrics_print(const struct mr_engine_stats *engine, FILE *out);

#endif
