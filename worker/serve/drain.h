/* drain - the end of a worker: mr_worker_drain of worker/serve/worker.h, and taking the parts away
 * in the reverse order of making them, for a start that failed as well.
 *
 * Owner:  the main thread. Memory: frees the worker and all its parts. Errors: as said there. */
#ifndef MR_WORKER_SERVE_DRAIN_H
#define MR_WORKER_SERVE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

struct mr_worker;

/* Frees what there is; parts never made are NULL. Threads that run are ended at once. False when
 * records were left unreported, or leaving the group took longer than timeout_ms. */
bool mr_worker_take_apart(struct mr_worker *worker, uint32_t timeout_ms);

#endif
