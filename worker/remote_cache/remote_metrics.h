/* remote_metrics - the statistics of the remote cache as Prometheus text, appended to the page of
 * worker/metrics/metrics.h, and as one line of the log.
 *
 * Threads: any. Memory: the text is reallocated as it grows. Errors: MR_NOMEM. */
#ifndef MR_WORKER_REMOTE_CACHE_REMOTE_METRICS_H
#define MR_WORKER_REMOTE_CACHE_REMOTE_METRICS_H

#include "batching/cache/remote_prefix.h"
#include "worker/remote_cache/redis_cache.h"

/* Appends the Redis metrics to *text, a malloc'ed text of *length bytes; *text and *length are
 * updated. */
enum mr_status mr_remote_metrics_append(const struct mr_redis_cache_stats *stats, char **text,
                                        size_t *length, struct mr_error *err);
/* Logs one line: counters since the start of the process, and the latest rates. */
void mr_remote_metrics_log(const struct mr_redis_cache_stats *stats,
                           const struct mr_remote_prefix_stats *shared, struct mr_log *log);

#endif
