/* health - what others may ask a worker: /livez, /readyz and /metrics over HTTP; mr_worker_health
 * and mr_worker_stats of worker/serve/worker.h.
 *
 * Alive: loading, idle or computing; dead: a part has failed, or no step ended for a minute. Ready:
 * alive, and requests are being taken.
 *
 * Threads: the pages are answered on the HTTP library's; opening is the main thread's. Memory: none
 * of its own. Errors: those of worker/http/http.h. */
#ifndef MR_WORKER_SERVE_HEALTH_H
#define MR_WORKER_SERVE_HEALTH_H

#include "codec/status.h"

struct mr_worker;

/* Serves the pages at the configuration's address; nothing to do when that is "" or "off". */
enum mr_status mr_worker_open_health(struct mr_worker *worker, struct mr_error *err);

#endif
