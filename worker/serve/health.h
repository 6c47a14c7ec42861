/* health - the status pages of a worker over HTTP: /livez, /readyz and /metrics.
 *
 * /livez answers 200 while the worker loads, idles or computes; 503 when a part has failed, or when
 * the engine has work and has not completed a loop for a minute. /readyz answers 200 while requests
 * are taken.
 *
 * Threads: the HTTP library's thread answers the pages; _open belongs to the main thread.
 * Memory: none. Errors: those of worker/http/http.h. */
#ifndef MR_WORKER_SERVE_HEALTH_H
#define MR_WORKER_SERVE_HEALTH_H

#include "codec/status.h"

struct mr_worker;

/* Starts the HTTP server at the address of --http; does nothing when that is "" or "off".
 * mr_worker_destroy stops it. */
enum mr_status mr_health_open(struct mr_worker *worker, struct mr_error *err);

#endif
