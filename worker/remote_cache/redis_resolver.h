/* redis_resolver - resolves host names for the Redis connections in its own threads, because the
 * system's resolver blocks for as long as a name server hangs. Fills the table of struct
 * mr_redis_resolver (kvcache/remote/redis_conn.h).
 *
 * Each host and port has one lookup at a time, in one thread, which all connections share; at most
 * MR_REDIS_RESOLVES_MAX lookups run at a time. A lookup that hangs occupies its thread until the
 * system's resolver returns. Nothing waits for that thread, not even the end of the process.
 *
 * Threads: any. Memory: a lookup lives until its thread has ended and every caller of `begin` has
 * called `end`; the resolver lives until _destroy and the end of its lookups. Errors: _create
 * MR_NOMEM. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_RESOLVER_H
#define MR_WORKER_REMOTE_CACHE_REDIS_RESOLVER_H

#include "kvcache/remote/redis_conn.h"

#include <netdb.h>

#define MR_REDIS_RESOLVES_MAX 16u

/* resolve: getaddrinfo, or in a test another function. */
enum mr_status mr_redis_resolver_create(struct mr_redis_resolver **out,
                                        int (*resolve)(const char *host, const char *port,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **addresses),
                                        struct mr_error *err);
/* Call it when no connection uses the table; lookups may still run. May be NULL. */
void mr_redis_resolver_destroy(struct mr_redis_resolver *resolver);

#endif
