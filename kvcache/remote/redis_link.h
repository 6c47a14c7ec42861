/* redis_link - reads and writes the bytes of one connection: a non-blocking TCP or unix socket,
 * with or without TLS. Bytes go straight from and to the caller's memory.
 *
 * Owner: one thread. Memory: the socket and the TLS session. Errors: MR_UNREACHABLE.
 * _open resolves a host name with the system's resolver, which may block. */
#ifndef MR_KVCACHE_REMOTE_REDIS_LINK_H
#define MR_KVCACHE_REMOTE_REDIS_LINK_H

#include "kvcache/remote/redis_tls.h"
#include "kvcache/remote/redis_url.h"

#include <sys/uio.h>

#define MR_REDIS_PARTS_MAX 64 /* most buffers (struct iovec) in one read or write */

struct mr_redis_link {
    int fd; /* the socket; -1: closed */
    struct mr_redis_tls *tls;
    bool connected;
    /* attempts to connect; selects the next address of a host that has several */
    uint32_t attempts;
    uint32_t addresses; /* of the host, as last resolved; 0: it was not, or the socket has a path */
};

void mr_redis_link_init(struct mr_redis_link *link);
/* Starts to connect to the unix socket or host:port of `where`. tls may be NULL when where->tls is
 * false. */
enum mr_status mr_redis_link_open(struct mr_redis_link *link, const struct mr_redis_url *where,
                                  struct mr_redis_tls_context *tls, struct mr_error *err);
/* Takes over a connected socket (for tests). */
void mr_redis_link_adopt(struct mr_redis_link *link, int fd);
void mr_redis_link_close(struct mr_redis_link *link);

/* Goes on connecting. MR_OK: connected. MR_AGAIN: not yet; call again after an event of _events. */
enum mr_status mr_redis_link_finish(struct mr_redis_link *link, struct mr_error *err);
/* Events to poll the socket for; writing: there are bytes to send. */
short mr_redis_link_events(const struct mr_redis_link *link, bool writing);
/* Read into or write from `parts`. They return the bytes moved; 0: would block; -1: closed. A read
 * may return less than is available. */
ssize_t mr_redis_link_read(struct mr_redis_link *link, struct iovec *parts, int count);
ssize_t mr_redis_link_write(struct mr_redis_link *link, struct iovec *parts, int count);
/* Whether a read returns bytes although the socket may have no event (TLS only). */
bool mr_redis_link_has_bytes(const struct mr_redis_link *link);
/* Whether the next write must begin with the bytes of the last one, which would have blocked (TLS
 * only). */
bool mr_redis_link_is_writing(const struct mr_redis_link *link);

#endif
