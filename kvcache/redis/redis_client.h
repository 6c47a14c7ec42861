/* redis_client - one thread's way to a Redis, whatever is behind the URL: one server, or a cluster
 * whose slots are learnt from the first MOVED on. One connection to each node, opened again by
 * itself, with a circuit breaker in front (redis_breaker.h): while it is open _send refuses at
 * once.
 *
 * A command goes to the node of its key's slot; MOVED teaches the slot and sends it there, ASK
 * sends it there once, at most MR_REDIS_REDIRECTS_MAX times; sent on to a node that does not
 * answer, it ends as LOST. A breaker closes when a command was answered, not when a connection
 * stands: a server that takes connections and answers nonsense stays shut out.
 *
 * Owner:  one thread, which polls _fill for _deadline_ns and calls _turn.
 * Memory: all in _create but a connection for each node met. Clock: passed in.
 * Errors: outcomes of ops. Each op that _send took comes back from _take once. */
#ifndef MR_KVCACHE_REDIS_REDIS_CLIENT_H
#define MR_KVCACHE_REDIS_REDIS_CLIENT_H

#include "kvcache/redis/redis_breaker.h"
#include "kvcache/redis/redis_conn.h"

#include <poll.h>

#define MR_REDIS_NODES_MAX     64u
#define MR_REDIS_REDIRECTS_MAX 5u

struct mr_redis_client;

struct mr_redis_client_stats {
    uint64_t connects, failures, moved, asked, breaker_openings; /* redirections by kind */
    uint32_t nodes;
    enum mr_breaker_state breaker; /* of the node named in the URL */
    struct mr_redis_conn_stats bytes;
};

/* seed: of the jitter. */
enum mr_status mr_redis_client_create(struct mr_redis_client **out,
                                      const struct mr_redis_conn_options *options, uint64_t seed,
                                      struct mr_error *err);
/* Ends all connections; then _take what is left, then _destroy. client may be NULL. */
void mr_redis_client_close(struct mr_redis_client *client);
void mr_redis_client_destroy(struct mr_redis_client *client);

/* Whether some node answers now. */
bool mr_redis_client_is_ready(const struct mr_redis_client *client);
/* False: no node can take it now; the op stays the caller's. */
bool mr_redis_client_send(struct mr_redis_client *client, struct mr_redis_op *op);
/* As mr_redis_conn_forget, for an op on its way. */
void mr_redis_client_forget(struct mr_redis_client *client, struct mr_redis_op *op,
                            uint64_t now_ns);
void mr_redis_client_turn(struct mr_redis_client *client, uint64_t now_ns);
struct mr_redis_op *mr_redis_client_take(struct mr_redis_client *client);

/* What to poll: at most max entries; returns how many. */
size_t mr_redis_client_fill(const struct mr_redis_client *client, struct pollfd *doors, size_t max);
/* When _turn has something to do without any door moving. */
uint64_t mr_redis_client_deadline_ns(const struct mr_redis_client *client);

struct mr_redis_client_stats mr_redis_client_stats(const struct mr_redis_client *client);
/* Why a connection ended last; "" none has. */
const char *mr_redis_client_reason(const struct mr_redis_client *client);
/* Asserts every invariant. */
void mr_redis_client_check(const struct mr_redis_client *client);

#endif
