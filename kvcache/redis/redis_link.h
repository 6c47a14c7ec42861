/* redis_link - bytes to and from one server: a TCP or unix socket that never blocks, with TLS or
 * without. What is read goes straight where the caller wants it, what is written comes straight
 * from there.
 *
 * Owner: one thread. Memory: the socket and the TLS session. Errors: MR_UNREACHABLE.
 * A host name is resolved in _open by the system's resolver, which may take a while. */
#ifndef MR_KVCACHE_REDIS_REDIS_LINK_H
#define MR_KVCACHE_REDIS_REDIS_LINK_H

#include "kvcache/redis/redis_tls.h"
#include "kvcache/redis/redis_url.h"

#include <sys/uio.h>

#define MR_REDIS_PARTS_MAX 64 /* vectors in one call */

struct mr_redis_link {
    int fd; /* -1: closed */
    struct mr_redis_tls *tls;
    bool connected;
    uint32_t turn; /* which of a host's addresses is tried */
};

void mr_redis_link_init(struct mr_redis_link *link);
/* Begins to connect: to the socket or host:port of where. tls may be NULL when where->tls is false.
 */
enum mr_status mr_redis_link_open(struct mr_redis_link *link, const struct mr_redis_url *where,
                                  struct mr_redis_tls_context *tls, struct mr_error *err);
/* Takes a connected socket over (tests). */
void mr_redis_link_adopt(struct mr_redis_link *link, int fd);
void mr_redis_link_close(struct mr_redis_link *link);

/* MR_OK: connected, bytes may flow. MR_AGAIN: not yet; see _events. */
enum mr_status mr_redis_link_finish(struct mr_redis_link *link, struct mr_error *err);
/* What poll should wait for. */
short mr_redis_link_events(const struct mr_redis_link *link, bool writing);
/* Bytes moved, 0: would block, -1: over. A read may move less than is there. */
ssize_t mr_redis_link_read(struct mr_redis_link *link, struct iovec *parts, int count);
ssize_t mr_redis_link_write(struct mr_redis_link *link, struct iovec *parts, int count);

#endif
