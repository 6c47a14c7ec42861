/* redis_port - what a connection thread needs of a Redis, as a table of calls. mr_redis_port_open
 * fills it from kvcache/redis/redis_client.h; a simulation fills it with a Redis in memory. No call
 * reads a clock, and none blocks, but for the resolver of host names in step (redis_link.h).
 *
 * Owner:  one thread. Memory: the table is copied; context lives until destroy. Errors: outcomes of
 * ops. Each op that send accepted comes back from take exactly once. */
#ifndef MR_WORKER_REDIS_REDIS_PORT_H
#define MR_WORKER_REDIS_REDIS_PORT_H

#include "kvcache/redis/redis_client.h"

struct mr_redis_port {
    void *context;
    /* Moves bytes, connects, ends what timed out. */
    void (*step)(void *context, uint64_t now_ns);
    bool (*is_ready)(const void *context);
    /* False: no connection can take the op now; it stays the caller's. */
    bool (*send)(void *context, struct mr_redis_op *op);
    /* From now on the memory of an op in flight is not touched; take still returns the op. */
    void (*cancel)(void *context, struct mr_redis_op *op, uint64_t now_ns);
    /* Next finished op; NULL: none. */
    struct mr_redis_op *(*take)(void *context);
    /* When to call step even if no socket has an event; 0: take has an op. */
    uint64_t (*deadline_ns)(const void *context);
    /* Sockets to wait for: writes at most max; returns how many. */
    size_t (*sockets)(const void *context, struct pollfd *fds, size_t max);
    struct mr_redis_client_stats (*stats)(const void *context);
    /* Why a connection closed last; "" when none has. */
    const char *(*reason)(const void *context);
    /* Ends every op in flight; then take what is left. */
    void (*close)(void *context);
    void (*destroy)(void *context);
};

/* A port over a client of its own. seed: of the random part of the breakers' wait. MR_NOMEM. */
enum mr_status mr_redis_port_open(struct mr_redis_port *out,
                                  const struct mr_redis_conn_options *options, uint64_t seed,
                                  struct mr_error *err);

#endif
