/* redis_client - one thread's access to the Redis behind a URL: one server, or a cluster whose slot
 * map is requested after the first MOVED reply. It keeps one connection to each known node, reopens
 * connections by itself, and has a circuit breaker for each node (redis_breaker.h); while no node
 * is ready _send refuses at once. A node to which no slot leads is forgotten when its breaker is
 * open, except the node of the URL.
 *
 * A command goes to the node that owns its key's slot. MOVED updates the slot map and sends the
 * command to the named node; ASK sends it there once. A command is redirected at most
 * MR_REDIS_REDIRECTS_MAX times; redirected to a node that does not connect, it ends as
 * MR_REDIS_LOST. A breaker closes when a command was answered, not when the connection is open: a
 * server that accepts connections and sends invalid replies stays excluded.
 *
 * Owner:  one thread, which polls _pollfds until _deadline_ns and calls _step.
 * Memory: all in _create but a connection for each node found. Clock: passed in.
 * Errors: outcomes of ops. Each op that _send accepted comes back from _take once. */
#ifndef MR_KVCACHE_REMOTE_REDIS_CLIENT_H
#define MR_KVCACHE_REMOTE_REDIS_CLIENT_H

#include "kvcache/remote/redis_breaker.h"
#include "kvcache/remote/redis_conn.h"

#include <poll.h>

#define MR_REDIS_NODES_MAX     64u
#define MR_REDIS_REDIRECTS_MAX 5u

struct mr_redis_client;

struct mr_redis_client_stats {
    uint64_t connects, failures; /* attempts to connect; connections that failed or closed */
    uint64_t moved, asked;       /* MOVED redirections; ASK redirections */
    uint64_t breaker_openings;
    uint32_t nodes;
    uint32_t addresses;            /* of the host in the URL (mr_redis_conn_addresses) */
    enum mr_breaker_state breaker; /* circuit breaker of the node named in the URL */
    struct mr_redis_conn_stats bytes;
};

/* seed: start of the random numbers for the breakers' waits. */
enum mr_status mr_redis_client_create(struct mr_redis_client **out,
                                      const struct mr_redis_conn_options *options, uint64_t seed,
                                      struct mr_error *err);
/* As mr_redis_conn_set_password, for the connections to all nodes, known now or later. */
void mr_redis_client_set_password(struct mr_redis_client *client, const char *password);
/* Closes all connections and ends every command in flight. Then call _take until it returns NULL,
 * then _destroy; or _step, which connects again and resolves host names again. */
void mr_redis_client_close(struct mr_redis_client *client);
/* client may be NULL. */
void mr_redis_client_destroy(struct mr_redis_client *client);

/* Whether the connection to at least one node is ready. */
bool mr_redis_client_is_ready(const struct mr_redis_client *client);
/* Sends a command. False: no node can take the command now, which stays the caller's. */
bool mr_redis_client_send(struct mr_redis_client *client, struct mr_redis_op *op);
/* Cancels a command in flight, as mr_redis_conn_cancel does. */
void mr_redis_client_cancel(struct mr_redis_client *client, struct mr_redis_op *op,
                            uint64_t now_ns);
/* Connects, reads, writes, and ends commands that timed out. Resolving a host name is the only
 * thing here that may block (redis_link.h). */
void mr_redis_client_step(struct mr_redis_client *client, uint64_t now_ns);
/* Next finished command; NULL: none. */
struct mr_redis_op *mr_redis_client_take(struct mr_redis_client *client);

/* Writes the sockets to poll to fds, at most max; returns how many. */
size_t mr_redis_client_pollfds(const struct mr_redis_client *client, struct pollfd *fds,
                               size_t max);
/* When to call _step even if every socket is idle. */
uint64_t mr_redis_client_deadline_ns(const struct mr_redis_client *client);

struct mr_redis_client_stats mr_redis_client_stats(const struct mr_redis_client *client);
/* Why a connection was closed last; "" when none has been. */
const char *mr_redis_client_reason(const struct mr_redis_client *client);
/* Asserts every invariant of the client. */
void mr_redis_client_check(const struct mr_redis_client *client);

#endif
