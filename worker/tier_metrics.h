/* tier_metrics - the figures of the tier in Redis as Prometheus text, to be put behind the page of
 * worker/metrics.h.
 *
 * Threads: any. Memory: the text grows. Errors: MR_NOMEM. */
#ifndef MR_WORKER_TIER_METRICS_H
#define MR_WORKER_TIER_METRICS_H

#include "worker/tier_redis.h"

/* Appends to a malloc'ed text of length bytes; *text may move. */
enum mr_status mr_tier_metrics_append(const struct mr_tier_redis_stats *stats, char **text,
                                      size_t *length, struct mr_error *err);

#endif
