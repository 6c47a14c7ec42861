/* drain - ends a worker gracefully, as after SIGTERM: the worker takes no more requests, lets the
 * running ones finish, commits offsets and leaves the consumer group.
 *
 * Owner: the main thread. Memory: frees the worker. Errors: the exit code returned. */
#ifndef MR_WORKER_SERVE_DRAIN_H
#define MR_WORKER_SERVE_DRAIN_H

#include "worker/serve/parts.h"

/* Requests that have not started are not committed, so Kafka delivers them to another worker;
 * running ones may finish until timeout_ns have passed or stop_now (polled; may be NULL) returns
 * true. Then all threads end and the worker is freed. Returns MR_EXIT_DONE; or MR_EXIT_FAILED if
 * the worker had failed before, or if the broker did not acknowledge everything although stop_now
 * never returned true. */
enum mr_exit mr_worker_drain(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*stop_now)(void *context), void *context);

#endif
