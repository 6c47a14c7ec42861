/* collector - the server that receives spans, such as an OpenTelemetry Collector: reads its URL,
 * and sends one HTTP/1.1 POST to it.
 *
 * Plain HTTP only: for TLS and passwords run a collector on the worker's host. Each call opens and
 * closes a connection; there is about one call a second.
 *
 * Threads: a call blocks, so it needs a separate thread. Memory: the struct. Errors: see _post. */
#ifndef MR_WORKER_TRACE_COLLECTOR_H
#define MR_WORKER_TRACE_COLLECTOR_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdatomic.h>
#include <stdint.h>

#define MR_COLLECTOR_HOST_BYTES 256u
#define MR_COLLECTOR_PATH_BYTES 1024u

struct mr_collector {
    char host[MR_COLLECTOR_HOST_BYTES], port[8];  /* an IPv6 address without brackets */
    char authority[MR_COLLECTOR_HOST_BYTES + 16]; /* HOST:PORT for the header Host */
    char path[MR_COLLECTOR_PATH_BYTES];
};

/* Reads http://HOST[:PORT][/PATH]; the port is 4318 and the path /v1/traces if the URL has none.
 * MR_BAD_CONFIG: anything else, https included. */
enum mr_status mr_collector_parse(struct mr_collector *collector, const char *url,
                                  struct mr_error *err);
/* Sends a JSON body and waits for the answer until the monotonic time *deadline_ns, which another
 * thread may bring forward; the lookup of the host's name is not limited by it. MR_OK: accepted,
 * except for *rejected spans. MR_AGAIN or MR_UNREACHABLE: send the body again later. MR_BACKEND:
 * the collector never accepts this body. */
enum mr_status mr_collector_post(const struct mr_collector *collector, struct mr_text body,
                                 const atomic_uint_least64_t *deadline_ns, uint64_t *rejected,
                                 struct mr_error *err);

#endif
