/* redis_tls - TLS over a non-blocking socket. The only module that knows the TLS library. The
 * server's certificate and name are always verified; the oldest accepted version is TLS 1.2.
 *
 * Threads: a context may be shared by threads, a session belongs to one. Memory: the library's.
 * Errors:  MR_BAD_CONFIG for files that cannot be used, MR_UNREACHABLE for a refused handshake. */
#ifndef MR_KVCACHE_REMOTE_REDIS_TLS_H
#define MR_KVCACHE_REMOTE_REDIS_TLS_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mr_redis_tls_context;
struct mr_redis_tls;

struct mr_redis_tls_files {
    const char *authorities; /* PEM file of trusted authorities; "": the system's authorities */
    /* PEM files of the client certificate and its key; "": no client certificate */
    const char *certificate, *key;
};

enum mr_status mr_redis_tls_context_create(struct mr_redis_tls_context **out,
                                           const struct mr_redis_tls_files *files,
                                           struct mr_error *err);
/* context may be NULL. */
void mr_redis_tls_context_destroy(struct mr_redis_tls_context *context);

/* Starts a TLS session on a connected socket, which the caller still owns. The server's certificate
 * must name `host`. */
enum mr_status mr_redis_tls_open(struct mr_redis_tls **out, struct mr_redis_tls_context *context,
                                 int fd, const char *host, struct mr_error *err);
/* tls may be NULL. */
void mr_redis_tls_close(struct mr_redis_tls *tls);

/* Event to poll for when a handshake, read or write would block: POLLIN or POLLOUT. */
short mr_redis_tls_wants(const struct mr_redis_tls *tls);
/* Goes on with the handshake. MR_OK: done. MR_AGAIN: call again when the socket is ready. */
enum mr_status mr_redis_tls_handshake(struct mr_redis_tls *tls, struct mr_error *err);
/* Reads or, below, writes: returns the bytes moved; 0: would block; -1: closed. */
ssize_t mr_redis_tls_read(struct mr_redis_tls *tls, void *bytes, size_t length);
ssize_t mr_redis_tls_write(struct mr_redis_tls *tls, const void *bytes, size_t length);
/* Whether the session holds decrypted bytes: they can be read although the socket has no event. */
bool mr_redis_tls_has_bytes(const struct mr_redis_tls *tls);
/* Whether the last write would have blocked: the session holds a record with the first of its
 * bytes, so the next write must begin with the same bytes. */
bool mr_redis_tls_is_writing(const struct mr_redis_tls *tls);

#endif
