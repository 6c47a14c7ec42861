/* worker - creates a worker: opens the model, connects to the broker and starts every thread.
 *
 *     engine thread: opens the model      at the same time: broker and topics are checked
 *     metrics, resume store, publish, transactions; last intake, which joins the group
 *
 * Owner: the main thread. Memory: the worker owns every part; worker/serve/drain.h ends it.
 * Errors: the status and sentence of the failed part, and the exit code for the process. */
#ifndef MR_WORKER_SERVE_WORKER_H
#define MR_WORKER_SERVE_WORKER_H

#include "worker/serve/parts.h"

/* Blocks until requests are taken, or a part failed. Block the signals that the process handles
 * first: threads created here inherit the signal mask. */
enum mr_status mr_worker_create(struct mr_worker **out, const struct mr_worker_options *options,
                                enum mr_exit *exit_code, struct mr_error *err);

#endif
