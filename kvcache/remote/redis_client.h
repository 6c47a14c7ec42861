/* redis_client - one thread's access to the Redis at a URL, as a table of functions (struct
 * mr_redis_port): one server, or a cluster whose slot map is requested after the first MOVED reply.
 * A simulation fills the table with a Redis in memory.
 *
 * The client keeps one connection to each known node, reopens connections by itself, and has a
 * circuit breaker for each node: after three failures in a row it makes no attempt until a random
 * wait (50 ms, doubling up to 5 s) has passed, and then one. While no node is ready, send refuses
 * at once. A node that owns no slot is forgotten when its breaker is open, except the node of the
 * URL.
 *
 * A command goes to the node that owns its key's slot. MOVED updates the slot map and sends the
 * command to the named node; ASK sends it there once. A command is redirected at most
 * MR_REDIS_REDIRECTS_MAX times; redirected to a node that does not connect, it ends as
 * MR_REDIS_LOST. A breaker closes when a command was answered, not when the connection is open: a
 * server that accepts connections and sends invalid replies stays excluded.
 *
 * Sources: kvcache/remote/redis_client.c, kvcache/remote/redis_client_breaker.c.
 * Owner:  one thread, which polls the sockets until deadline_ns and calls step. No function blocks
 *         or reads a clock, if the options have a resolver of host names.
 * Memory: all when it is opened, except a connection for each node found. The table is copied; its
 *         context lives until destroy.
 * Errors: the outcome of each command. Each command that send accepted comes back from take exactly
 *         once. */
#ifndef MR_KVCACHE_REMOTE_REDIS_CLIENT_H
#define MR_KVCACHE_REMOTE_REDIS_CLIENT_H

#include "kvcache/remote/redis_conn.h"

#include <poll.h>

#define MR_REDIS_NODES_MAX     64u
#define MR_REDIS_REDIRECTS_MAX 5u

enum mr_breaker_state { MR_BREAKER_CLOSED, MR_BREAKER_OPEN, MR_BREAKER_HALF_OPEN };

struct mr_redis_client_stats {
    uint64_t connects, failures; /* attempts to connect; connections that failed or closed */
    uint64_t moved, asked;       /* MOVED redirections; ASK redirections */
    uint64_t breaker_openings;
    uint32_t nodes;
    uint32_t addresses;            /* of the host in the URL (mr_redis_conn_addresses) */
    enum mr_breaker_state breaker; /* circuit breaker of the node named in the URL */
    struct mr_redis_conn_stats bytes;
};

struct mr_redis_port {
    void *context;
    /* Connects, sends and receives bytes, and ends the commands that have timed out. */
    void (*step)(void *context, uint64_t now_ns);
    bool (*is_ready)(const void *context); /* the connection to at least one node is ready */
    /* False: no connection can take the command now, and the caller keeps it. */
    bool (*send)(void *context, struct mr_redis_command *command);
    /* Cancels a command in flight, as mr_redis_conn_cancel does: its buffers are no longer touched;
     * take still returns it. */
    void (*cancel)(void *context, struct mr_redis_command *command, uint64_t now_ns);
    /* Returns the next command that has ended; NULL: none. */
    struct mr_redis_command *(*take)(void *context);
    /* When to call step even if no socket has an event; 0: at once, because a command is ready for
     * take. */
    uint64_t (*deadline_ns)(const void *context);
    /* Writes the sockets to wait for to fds, at most max; returns how many. */
    size_t (*sockets)(const void *context, struct pollfd *fds, size_t max);
    /* As mr_redis_conn_set_password, for the connections to all nodes, known now or later. */
    void (*set_password)(void *context, const char *password);
    struct mr_redis_client_stats (*stats)(const void *context);
    /* Why a connection was closed most recently; "" when none was. */
    const char *(*reason)(const void *context);
    /* Closes the connections and ends every command in flight, which the caller then takes. The
     * next step connects again and resolves host names again. */
    void (*close)(void *context);
    void (*destroy)(void *context); /* after close, when every command was taken */
};

/* Fills the port with a new client. seed: start of the random numbers for the breakers' waits.
 * Error: MR_NOMEM. */
enum mr_status mr_redis_port_open(struct mr_redis_port *out,
                                  const struct mr_redis_conn_options *options, uint64_t seed,
                                  struct mr_error *err);
/* Asserts every invariant of the client whose port was filled by mr_redis_port_open. */
void mr_redis_client_check(const struct mr_redis_port *port);

#endif
