/* redis_conn - one connection to one Redis: commands out in order, replies in. A machine over a
 * socket that never blocks: whoever owns it polls _fd for _events until _deadline_ns and calls
 * _turn.
 *
 * Values (redis_op.h) are received straight into place. Every other reply is parsed by hiredis,
 * which is handed exactly the bytes of that reply, so that it never holds a byte of the value
 * behind it; a declared length beyond the limits below is refused before anything is allocated for
 * it. A reply that is none, or one nobody asked for, ends the connection, and with it fails what is
 * on its way: after an error the next reply is never taken for the last one's.
 *
 * Life: CLOSED, CONNECTING, GREETING (AUTH, SELECT, PING), READY. In parts:
 * kvcache/redis/redis_conn.c life, writing and what hiredis formats and parses,
 * kvcache/redis/redis_read.c the replies.
 *
 * Owner:  one thread. Memory: made in _create; ops are the caller's until they come back from
 * _take. Errors: _open MR_UNREACHABLE; later ones are outcomes of ops, and _reason. Clock: passed
 * in. */
#ifndef MR_KVCACHE_REDIS_REDIS_CONN_H
#define MR_KVCACHE_REDIS_REDIS_CONN_H

#include "kvcache/redis/redis_link.h"
#include "kvcache/redis/redis_op.h"

#define MR_REDIS_REPLY_BYTES_MAX ((size_t)4 << 20) /* of a reply that is not a value */
#define MR_REDIS_REPLY_ITEMS_MAX 65536u            /* elements of one array */
#define MR_REDIS_SKIP_BYTES_MAX                                                                    \
    ((size_t)16 << 20)               /* a value of another size is read past up to this */
#define MR_REDIS_IN_FLIGHT_MAX 4096u /* commands waiting for replies */
#define MR_REDIS_FORGET_NS     ((uint64_t)10000000)

struct mr_redis_conn;

struct mr_redis_conn_options {
    struct mr_redis_url where;        /* copied */
    struct mr_redis_tls_context *tls; /* borrowed; NULL without TLS */
    uint64_t connect_timeout_ns;      /* until READY */
};

struct mr_redis_conn_stats {
    uint64_t sent_bytes, received_bytes;
    uint64_t
        copied_bytes; /* of values: received with the reply's first line, then moved into place */
    uint64_t value_bytes; /* of values received */
};

enum mr_status mr_redis_conn_create(struct mr_redis_conn **out,
                                    const struct mr_redis_conn_options *options,
                                    struct mr_error *err);
/* Nothing may be on its way: _close and _take first. conn may be NULL. */
void mr_redis_conn_destroy(struct mr_redis_conn *conn);

/* CLOSED to CONNECTING. */
enum mr_status mr_redis_conn_open(struct mr_redis_conn *conn, uint64_t now_ns,
                                  struct mr_error *err);
/* The same over a connected socket, which it takes (tests). */
void mr_redis_conn_adopt(struct mr_redis_conn *conn, int fd, uint64_t now_ns);
/* Ends with LOST what is on its way. */
void mr_redis_conn_close(struct mr_redis_conn *conn);

bool mr_redis_conn_is_ready(const struct mr_redis_conn *conn);
bool mr_redis_conn_is_closed(const struct mr_redis_conn *conn);
/* Commands whose reply is not here yet. */
uint32_t mr_redis_conn_in_flight(const struct mr_redis_conn *conn);
/* Why it closed last; "" not yet. */
const char *mr_redis_conn_reason(const struct mr_redis_conn *conn);
struct mr_redis_conn_stats mr_redis_conn_stats(const struct mr_redis_conn *conn);

/* Only when READY, with fewer than MR_REDIS_IN_FLIGHT_MAX on their way (asserted). Does no I/O. */
void mr_redis_conn_send(struct mr_redis_conn *conn, struct mr_redis_op *op);
/* What the op's parts and `into` point at is not touched any more. A value that is coming is read
 * past, for MR_REDIS_FORGET_NS at most: then the connection ends, as with every late op; a command
 * not sent yet comes back LOST; one sent in part takes the connection with it. The op still comes
 * back. No effect on an op that is elsewhere. */
void mr_redis_conn_forget(struct mr_redis_conn *conn, struct mr_redis_op *op, uint64_t now_ns);
/* Moves what can be moved now, ends what is late. */
void mr_redis_conn_turn(struct mr_redis_conn *conn, uint64_t now_ns);
/* Next op that is over, NULL for none; the caller ends it with _op_end. */
struct mr_redis_op *mr_redis_conn_take(struct mr_redis_conn *conn);

int mr_redis_conn_fd(const struct mr_redis_conn *conn);
short mr_redis_conn_events(const struct mr_redis_conn *conn);
/* When _turn or _take has something to do without the fd moving; UINT64_MAX: never. */
uint64_t mr_redis_conn_deadline_ns(const struct mr_redis_conn *conn);

/* ---- commands and replies that are not values ---- */

/* Makes op a command of these words, the second being its key if keyed. False: no memory. */
bool mr_redis_op_command(struct mr_redis_op *op, int count, const char *const *words,
                         const size_t *lengths, bool keyed);
/* Frees what op owns. */
void mr_redis_op_end(struct mr_redis_op *op);

enum mr_redis_type { MR_REDIS_NIL, MR_REDIS_INTEGER, MR_REDIS_TEXT, MR_REDIS_LIST };
enum mr_redis_type mr_redis_reply_type(const struct mr_redis_reply *reply);
int64_t mr_redis_reply_integer(const struct mr_redis_reply *reply); /* 0 for other types */
/* "" for other types. */
const char *mr_redis_reply_text(const struct mr_redis_reply *reply, size_t *length);
size_t mr_redis_reply_count(const struct mr_redis_reply *reply);
const struct mr_redis_reply *mr_redis_reply_at(const struct mr_redis_reply *reply, size_t index);

#endif
