/* server - the HTTP side of a gateway: reads calls, hands them to the link, and sends the answers.
 *
 * Paths: POST for the endpoints of codec/openai/endpoint.h; GET for /v1/models, /v1/models/NAME,
 * /health, /metrics and /, a page to try a prompt. OPTIONS is answered for browsers of other
 * origins if an origin is allowed. The response to a call has x-request-id if the call has got an
 * id (worker/gateway/accept.h) before it was refused.
 *
 * A body that is larger than the limit is read to its end and dropped, up to
 * MR_SERVER_DISCARD_BYTES, so that the client reads the error instead of a broken connection.
 *
 * Threads: one of the HTTP library, which waits in epoll and runs all callbacks. A call that waits
 *          for its answer is suspended (worker/gateway/exchange.h), so connections, not
 *          threads, bound the number of calls in flight.
 * Memory:  MR_SERVER_CONNECTION_BYTES for each connection, and the exchanges.
 * Errors:  MR_BAD_CONFIG for an address that is malformed or, without keys, not of this machine;
 *          MR_UNREACHABLE if listening fails. */
#ifndef MR_WORKER_GATEWAY_SERVER_H
#define MR_WORKER_GATEWAY_SERVER_H

#include "worker/gateway/accept.h"
#include "worker/gateway/keys.h"
#include "worker/gateway/link.h"

#define MR_SERVER_CONNECTION_BYTES ((size_t)32768)
#define MR_SERVER_IDLE_SECONDS     75u
#define MR_SERVER_DISCARD_BYTES    ((uint64_t)64 << 20)

struct mr_server_options {
    const char *address; /* HOST:PORT; port 0: any free port */
    struct mr_link *link;
    struct mr_exchanges *exchanges;
    struct mr_keys *keys; /* NULL: every call is taken, from this machine only */
    struct mr_fleet *fleet;
    struct mr_gateway_counts *counts;
    struct mr_accept_rules rules;
    size_t body_bytes_max;
    uint32_t connections_max;
    const char *cors_origin;         /* "": none */
    char *certificate, *private_key; /* PEM texts of TLS; NULL: plain HTTP */
};

struct mr_server;

/* options are copied; what they point to must outlive the server. */
enum mr_status mr_server_start(struct mr_server **out, const struct mr_server_options *options,
                               struct mr_error *err);
/* Wakes a suspended connection. Any thread. */
void mr_server_resume(struct MHD_Connection *connection);
uint16_t mr_server_port(const struct mr_server *server);
/* Takes no further connections, and waits up to timeout_ms until no call waits for its answer. */
void mr_server_drain(struct mr_server *server, uint32_t timeout_ms);
/* No call waits for its answer any more: mr_link_fail_all has ended them. server may be NULL. */
void mr_server_stop(struct mr_server *server);

#endif
