/* redis_conn_state - the parts of a connection (kvcache/remote/redis_conn.h), private to that
 * module: the link moves bytes, with or without a TLS session, and the reader parses replies from
 * them.
 *
 * Link: a non-blocking TCP or unix socket, with or without TLS. Bytes go straight from and to the
 * caller's memory. A host name is resolved by link->resolver, or without one by the system's
 * resolver in mr_redis_link_open, which may block. Errors: MR_UNREACHABLE.
 *
 * Reader: reads the replies in the order of the commands. Values are received straight into the
 * caller's memory; the parser of redis_command.h gets exactly the bytes of one other reply, so it
 * never holds a byte of the value that follows. A declared length beyond the limits below is
 * refused before memory is allocated for it. After an error the caller closes the connection, so a
 * later reply is never matched with an earlier command. Errors: MR_NOMEM; MR_READ_MALFORMED.
 *
 * Owner: one thread. Memory: the socket and the TLS session; all of the reader in _create except
 * the parser's memory, which the limits bound. */
#ifndef MR_KVCACHE_REMOTE_REDIS_CONN_STATE_H
#define MR_KVCACHE_REMOTE_REDIS_CONN_STATE_H

#include "kvcache/remote/redis_conn.h"

#include <sys/types.h>

/* ---- TLS session: the only user of the TLS library. MR_UNREACHABLE: the handshake failed ---- */

struct mr_redis_tls;
/* Starts a TLS session on a connected socket, which the caller still owns. The server's certificate
 * must name `host`. */
enum mr_status mr_redis_tls_open(struct mr_redis_tls **out, struct mr_redis_tls_context *context,
                                 int fd, const char *host, struct mr_error *err);
/* tls may be NULL. */
void mr_redis_tls_close(struct mr_redis_tls *tls);
/* Event to poll for when a handshake, read or write would block: POLLIN or POLLOUT. */
short mr_redis_tls_wants(const struct mr_redis_tls *tls);
/* Continues the handshake. MR_OK: done. MR_AGAIN: call again when the socket is ready. */
enum mr_status mr_redis_tls_handshake(struct mr_redis_tls *tls, struct mr_error *err);
/* _read and _write return the bytes moved; 0: would block; -1: closed. */
ssize_t mr_redis_tls_read(struct mr_redis_tls *tls, void *bytes, size_t length);
ssize_t mr_redis_tls_write(struct mr_redis_tls *tls, const void *bytes, size_t length);
/* Whether the session holds decrypted bytes: they can be read although the socket has no event. */
bool mr_redis_tls_has_bytes(const struct mr_redis_tls *tls);
/* Whether the last write would have blocked: the session holds a record with the first of its
 * bytes, so the next write must begin with the same bytes. */
bool mr_redis_tls_is_writing(const struct mr_redis_tls *tls);

/* ---- link ---- */

#define MR_REDIS_PARTS_MAX 64 /* most buffers (struct iovec) in one read or write */

struct mr_redis_link {
    int fd; /* the socket; -1: closed */
    struct mr_redis_tls *tls;
    const struct mr_redis_resolver *resolver; /* NULL: none; set by the owner after _init */
    void *lookup;                             /* lookup of the host, in progress; NULL: none */
    /* arguments of the last _open, which must live until the link is connected or closed */
    const struct mr_redis_url *where;
    struct mr_redis_tls_context *context;
    bool connected;
    uint32_t attempts; /* attempts to connect; each uses the next one of the host's addresses */
    uint32_t
        addresses; /* addresses of the host, as last resolved; 0: not resolved, or a unix socket */
};

void mr_redis_link_init(struct mr_redis_link *link);
/* Starts to connect to the unix socket or host:port of `where`. tls may be NULL when where->tls is
 * false. */
enum mr_status mr_redis_link_open(struct mr_redis_link *link, const struct mr_redis_url *where,
                                  struct mr_redis_tls_context *tls, struct mr_error *err);
/* Takes over a connected socket (for tests). */
void mr_redis_link_adopt(struct mr_redis_link *link, int fd);
void mr_redis_link_close(struct mr_redis_link *link);

/* Continues to connect. MR_OK: connected. MR_AGAIN: call again after an event of _events. */
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

/* ---- reader ---- */

#define MR_REDIS_REPLY_BYTES_MAX ((size_t)4 << 20) /* most bytes of a reply that is not a value */
#define MR_REDIS_REPLY_ITEMS_MAX 65536u            /* most elements of one array in a reply */
/* longest unwanted value that is read and discarded; for a longer one the connection is closed */
#define MR_REDIS_SKIP_BYTES_MAX ((size_t)16 << 20)
/* longest time for reading and discarding an unwanted value */
#define MR_REDIS_CANCEL_NS ((uint64_t)10000000)

struct mr_redis_reader;

enum mr_status mr_redis_reader_create(struct mr_redis_reader **out, struct mr_error *err);
/* reader may be NULL. */
void mr_redis_reader_destroy(struct mr_redis_reader *reader);
/* Prepares the reader for a new connection. Fails with MR_NOMEM only. */
enum mr_status mr_redis_reader_reset(struct mr_redis_reader *reader, struct mr_error *err);

/* Makes one read from the link. command: the oldest command without a reply, NULL: none;
 * values_pending: whether any command in flight expects a value. Returns what mr_redis_link_read
 * returned. */
ssize_t mr_redis_reader_receive(struct mr_redis_reader *reader, struct mr_redis_link *link,
                                struct mr_redis_command *command, bool values_pending);

enum mr_redis_read {
    MR_READ_MORE,     /* the reply is not complete: receive more bytes */
    MR_READ_REPLY,    /* the command now has its outcome, and its reply or error text */
    MR_READ_MALFORMED /* close the connection; *reason says why */
};
/* Parses the command's reply from the bytes received. After MR_READ_REPLY call it again with the
 * next command. */
enum mr_redis_read mr_redis_reader_next(struct mr_redis_reader *reader,
                                        struct mr_redis_command *command, uint64_t now_ns,
                                        const char **reason);
/* The oldest command in flight was cancelled: the rest of its value is no longer stored, but read
 * and discarded for at most MR_REDIS_CANCEL_NS. The command's outcome is MR_REDIS_MISS, even if
 * part of the value was stored before. */
void mr_redis_reader_cancel(struct mr_redis_reader *reader, struct mr_redis_command *command,
                            uint64_t now_ns);
/* The received part of the statistics; sent_bytes is 0. */
struct mr_redis_conn_stats mr_redis_reader_stats(const struct mr_redis_reader *reader);

#endif
