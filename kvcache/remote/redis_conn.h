/* redis_conn - one connection to one Redis server: sends commands in order and matches the replies.
 * A state machine over a non-blocking socket: the owner polls _fd for _events until _deadline_ns
 * and calls _step.
 *
 * States: CLOSED, CONNECTING, HANDSHAKE (AUTH, SELECT, PING), READY. An invalid reply, or one that
 * no command is waiting for, closes the connection; then every command in flight fails, so a reply
 * is never matched with the wrong command.
 *
 * Sources: kvcache/remote/redis_conn.c (states), kvcache/remote/redis_conn_reader.c (replies),
 * kvcache/remote/redis_conn_link.c (socket), kvcache/remote/redis_conn_tls.c (TLS).
 * Owner: one thread. Memory: made in _create. A command belongs to the caller, who does not touch
 * it from _send until _take returns it. Errors: _open MR_UNREACHABLE; later errors are outcomes of
 * commands, and _reason. Clock: passed in. */
#ifndef MR_KVCACHE_REMOTE_REDIS_CONN_H
#define MR_KVCACHE_REMOTE_REDIS_CONN_H

#include "kvcache/remote/redis_command.h"
#include "kvcache/remote/redis_url.h"

#define MR_REDIS_IN_FLIGHT_MAX 4096u /* most commands waiting for replies on one connection */

/* TLS: the server's certificate and name are always verified; the oldest accepted version is TLS
 * 1.2. Threads may share a context. MR_BAD_CONFIG: a file cannot be used. */
struct mr_redis_tls_context;
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

/* Resolves host names without blocking the connection's thread. */
struct addrinfo;
struct mr_redis_resolver {
    void *context;
    /* Starts a lookup of host and port; NULL: not possible now. */
    void *(*begin)(void *context, const char *host, const char *port);
    /* True when the lookup has ended, with the result of getaddrinfo, valid until end. */
    bool (*poll)(void *lookup, const struct addrinfo **addresses, int *error);
    void (*end)(void *lookup); /* releases the lookup, which may still run */
};

struct mr_redis_conn;

struct mr_redis_conn_options {
    struct mr_redis_url where;        /* address and credentials, copied */
    struct mr_redis_tls_context *tls; /* borrowed; NULL without TLS */
    /* borrowed; NULL: the system's resolver is called in _open, which may block */
    const struct mr_redis_resolver *resolver;
    uint64_t connect_timeout_ns; /* longest time from _open until READY */
};

struct mr_redis_conn_stats {
    uint64_t sent_bytes, received_bytes;
    uint64_t value_bytes; /* bytes of values received */
    /* part of value_bytes: bytes received with a reply's first line and then copied */
    uint64_t copied_bytes;
};

enum mr_status mr_redis_conn_create(struct mr_redis_conn **out,
                                    const struct mr_redis_conn_options *options,
                                    struct mr_error *err);
/* Call _close, then _take until it returns NULL: no command may be in flight. conn may be NULL. */
void mr_redis_conn_destroy(struct mr_redis_conn *conn);

/* Starts to connect; the state goes from CLOSED to CONNECTING. */
enum mr_status mr_redis_conn_open(struct mr_redis_conn *conn, uint64_t now_ns,
                                  struct mr_error *err);
/* Like _open, over a connected socket, which the connection then owns (for tests). */
void mr_redis_conn_adopt(struct mr_redis_conn *conn, int fd, uint64_t now_ns);
/* The password of every later login; the current login stays valid. Shorter than
 * MR_REDIS_SECRET_BYTES; copied. */
void mr_redis_conn_set_password(struct mr_redis_conn *conn, const char *password);
/* Ends every command in flight with MR_REDIS_LOST and closes the socket. */
void mr_redis_conn_close(struct mr_redis_conn *conn);

bool mr_redis_conn_is_ready(const struct mr_redis_conn *conn);
bool mr_redis_conn_is_closed(const struct mr_redis_conn *conn);
/* Number of commands without a reply. */
uint32_t mr_redis_conn_in_flight(const struct mr_redis_conn *conn);
/* Reason of the last close; "" if there was none. */
const char *mr_redis_conn_reason(const struct mr_redis_conn *conn);
/* Number of addresses of the server's host, as last resolved; each _open uses the next one. 0: not
 * resolved, or a unix socket. */
uint32_t mr_redis_conn_addresses(const struct mr_redis_conn *conn);
struct mr_redis_conn_stats mr_redis_conn_stats(const struct mr_redis_conn *conn);
void mr_redis_conn_stats_add(struct mr_redis_conn_stats *sum,
                             const struct mr_redis_conn_stats *one);

/* Queues a command; does no I/O. The connection must be READY and have fewer than
 * MR_REDIS_IN_FLIGHT_MAX commands in flight (asserted). */
void mr_redis_conn_send(struct mr_redis_conn *conn, struct mr_redis_command *command);
/* Cancels a command: from now on the memory that command->out and command->into point at is not
 * touched. If its value is being received, the rest is read and discarded for at most
 * MR_REDIS_CANCEL_NS, then the connection is closed. A command not sent yet ends as MR_REDIS_LOST;
 * one sent in part, or with bytes in the TLS session, closes the connection. _take still returns
 * the command. No effect on a command of another connection. */
void mr_redis_conn_cancel(struct mr_redis_conn *conn, struct mr_redis_command *command,
                          uint64_t now_ns);
/* Reads and writes as much as the socket allows now, and closes the connection when a command or
 * the handshake is past its deadline. */
void mr_redis_conn_step(struct mr_redis_conn *conn, uint64_t now_ns);
/* Next finished command; NULL: none. The caller frees its memory with mr_redis_command_end. */
struct mr_redis_command *mr_redis_conn_take(struct mr_redis_conn *conn);

int mr_redis_conn_fd(const struct mr_redis_conn *conn);
short mr_redis_conn_events(const struct mr_redis_conn *conn);
/* When to call _step or _take even if the socket is idle; 0: at once; UINT64_MAX: never. */
uint64_t mr_redis_conn_deadline_ns(const struct mr_redis_conn *conn);

#endif
