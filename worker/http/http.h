/* http - serves GET /livez, /readyz, /metrics, /requests and /lag to orchestrators and Prometheus,
 * and a list of these pages at /. The only module that includes the HTTP library.
 *
 * Threads: one thread of the HTTP library, which sleeps in poll between requests; it calls the
 * answer function, which must not block for long. The main thread calls _start and _stop.
 * Memory: at most MR_HTTP_CONNECTIONS_MAX connections of MR_HTTP_CONNECTION_BYTES each; a
 * connection is closed after MR_HTTP_IDLE_SECONDS without a byte. Request bodies are refused.
 * Idle clients cannot block others: when half of the places are taken, each new connection ends the
 * oldest one a second later.
 * Errors: MR_BAD_CONFIG for a malformed address, MR_UNREACHABLE when listening on the address
 * fails. */
#ifndef MR_WORKER_HTTP_HTTP_H
#define MR_WORKER_HTTP_HTTP_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

#define MR_HTTP_CONNECTIONS_MAX  256u
#define MR_HTTP_CONNECTION_BYTES ((size_t)16384)
#define MR_HTTP_IDLE_SECONDS     10u

struct mr_http;

enum mr_http_page {
    MR_HTTP_LIVEZ,
    MR_HTTP_READYZ,
    MR_HTTP_METRICS,
    MR_HTTP_REQUESTS,
    MR_HTTP_LAG, /* of millrace lag; the others are a worker's */
    MR_HTTP_PAGE_COUNT
};

struct mr_http_reply {
    unsigned code;            /* HTTP status code */
    const char *content_type; /* a string literal */
    char *body;               /* malloc'ed, freed by this module; NULL: the reply has no body */
    size_t length;
};

/* Fills the reply, which initially has status 200, content type text/plain and no body. */
typedef void mr_http_answer(void *context, enum mr_http_page page, struct mr_http_reply *reply);

/* address: HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464; port 0 means any free port. */
enum mr_status mr_http_start(struct mr_http **out, const char *address, mr_http_answer *answer,
                             void *context, struct mr_error *err);
/* Waits until replies in progress are sent, then stops the server. http may be NULL. */
void mr_http_stop(struct mr_http *http);
/* The port on which the server listens. */
uint16_t mr_http_port(const struct mr_http *http);

#endif
