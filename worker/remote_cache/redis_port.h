/* redis_port - what a connection thread needs from a Redis server, as a table of function pointers.
 * mr_redis_port_open fills the table with the client of kvcache/remote/redis_client.h; a simulation
 * fills it with a Redis in memory. No function reads a clock, and none blocks, except that step may
 * block while a host name is resolved (redis_link.h).
 *
 * Owner: one thread. Memory: the table is copied; context lives until destroy. An op (struct
 * mr_redis_op) is one Redis command and its reply. Errors: each op carries its outcome. Each op
 * that send accepted is returned by take exactly once. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_PORT_H
#define MR_WORKER_REMOTE_CACHE_REDIS_PORT_H

#include "kvcache/remote/redis_client.h"

struct mr_redis_port {
    void *context;
    /* Connects, sends and receives bytes, and ends the ops that have timed out. */
    void (*step)(void *context, uint64_t now_ns);
    bool (*is_ready)(const void *context);
    /* False: no connection can take the op (a Redis command) now; the op still belongs to the
     * caller. */
    bool (*send)(void *context, struct mr_redis_op *op);
    /* After cancel the port does not touch the buffers of the op any more; take still returns the
     * op. */
    void (*cancel)(void *context, struct mr_redis_op *op, uint64_t now_ns);
    /* Returns the next op that has ended; NULL: no op has ended. */
    struct mr_redis_op *(*take)(void *context);
    /* When to call step even if no socket has an event; 0: at once, because take has an op to
     * return. */
    uint64_t (*deadline_ns)(const void *context);
    /* Writes the sockets to wait for to fds, at most max; returns how many. */
    size_t (*sockets)(const void *context, struct pollfd *fds, size_t max);
    /* As mr_redis_client_set_password. */
    void (*set_password)(void *context, const char *password);
    struct mr_redis_client_stats (*stats)(const void *context);
    /* Why a connection was closed most recently; "" when none was closed. */
    const char *(*reason)(const void *context);
    /* Closes the connections and ends every op in flight; the caller then takes these ops with
     * take. The next step connects again. */
    void (*close)(void *context);
    void (*destroy)(void *context);
};

/* Fills the port with a new Redis client. seed: for the random part of the time for which a circuit
 * breaker waits before it reconnects. Error: MR_NOMEM. */
enum mr_status mr_redis_port_open(struct mr_redis_port *out,
                                  const struct mr_redis_conn_options *options, uint64_t seed,
                                  struct mr_error *err);

#endif
