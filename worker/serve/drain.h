/* drain - ends a worker gracefully, as after SIGTERM. The worker takes no more requests, finishes
 * the running ones, commits offsets and leaves the consumer group.
 *
 * Owner: the main thread. Memory: frees the worker. Errors: the exit code returned. */
#ifndef MR_WORKER_SERVE_DRAIN_H
#define MR_WORKER_SERVE_DRAIN_H

#include "worker/serve/parts.h"

/* Requests that have not started are not committed, so Kafka delivers them to another worker.
 * Running ones may finish until timeout_ns have passed or stop_now (polled; may be NULL) returns
 * true. Then all threads end and the worker is freed. This end takes at most MR_DRAIN_END_NS, plus
 * the time that is left of timeout_ns, but not more than MR_DRAIN_END_MAX_NS.
 *
 * Returns MR_EXIT_DONE. Returns MR_EXIT_FAILED if the worker had failed before, or if the broker
 * did not acknowledge everything although stop_now never returned true. *ended: all parts have
 * ended; otherwise threads still run, and the process should end with _exit. ended may be NULL. */
enum mr_exit mr_worker_drain(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*stop_now)(void *context), void *context, bool *ended);

/* MR_DRAIN_END_NS and the time of calls that cannot be interrupted are less than the 4.5 seconds
 * after which worker/serve/shutdown.h ends the process. */
#define MR_DRAIN_END_NS     ((uint64_t)3500000000)
#define MR_DRAIN_END_MAX_NS ((uint64_t)10000000000)

#endif
