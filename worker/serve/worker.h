/* worker - creates a worker: opens the model, connects to the Kafka broker and starts every thread.
 *
 * The checks that need no server come first (worker/serve/local.h), so that a wrong option or model
 * ends the process at once. The engine thread then loads the model, while the main thread connects
 * to the broker and creates missing topics. After that the main thread creates metrics, resume,
 * publish and transactions, and finally intake, which joins the consumer group.
 *
 * Owner: the main thread. Memory: the worker owns all its components; worker/serve/drain.h ends it.
 * Errors: status and sentence of the component that failed, and the exit code of the process. */
#ifndef MR_WORKER_SERVE_WORKER_H
#define MR_WORKER_SERVE_WORKER_H

#include "worker/serve/parts.h"

/* Blocks until the worker takes requests, or a component failed. Before the call, block the signals
 * that the process handles: threads created here inherit the signal mask. */
enum mr_status mr_worker_create(struct mr_worker **out, const struct mr_worker_options *options,
                                enum mr_exit *exit_code, struct mr_error *err);

#endif
