/* health - the status pages of a worker over HTTP: /livez, /readyz, /metrics and /requests
 * (worker/intake/oldest.h).
 *
 * /livez answers 200 while the worker loads, idles or computes; 503 when a component of the worker
 * has failed, when a thread is stuck in a step (worker/base/heartbeat.h), or when the engine has
 * work and has not completed a step for a minute. /readyz answers 200 while the worker takes
 * requests and the broker answers, otherwise 503 with the reason (worker/serve/readiness.h).
 * /metrics is made at most every 100 ms; clients in between get the last page.
 *
 * Threads: the HTTP library's thread answers the pages; the main thread calls _open. Memory: none.
 * Errors: MR_BAD_CONFIG with the option's name when it cannot listen there; MR_NOMEM. */
#ifndef MR_WORKER_SERVE_HEALTH_H
#define MR_WORKER_SERVE_HEALTH_H

#include "codec/status.h"
#include "worker/serve/readiness.h"

#include <stdbool.h>

struct mr_worker;

/* Starts the HTTP server at the address of the option --http; does nothing when that option is ""
 * or "off". mr_worker_destroy stops the server. */
enum mr_status mr_health_open(struct mr_worker *worker, struct mr_error *err);
/* Whether /readyz answers 200 now. reason[MR_READINESS_REASON_BYTES]: the first condition that does
 * not hold, or ""; may be NULL. Threads: any. */
bool mr_health_is_ready(struct mr_worker *worker, char *reason);

#endif
