/* redis_reader - reads the replies on one connection, in the order of the commands. Values
 * (redis_op.h) are received straight into place; every other reply is parsed by redis_reply.h.
 *
 * The parser is fed exactly the bytes of one reply, so it never holds a byte of the value that
 * follows. A declared length beyond the limits below is refused before memory is allocated for it.
 * After an error the caller closes the connection: a later reply is never taken for that of an
 * earlier command.
 *
 * Owner: one thread. Memory: all in _create but the parser's, bounded by the limits. Errors:
 * MR_NOMEM; MR_READ_MALFORMED. */
#ifndef MR_KVCACHE_REDIS_REDIS_READER_H
#define MR_KVCACHE_REDIS_REDIS_READER_H

#include "kvcache/redis/redis_link.h"
#include "kvcache/redis/redis_op.h"

#define MR_REDIS_REPLY_BYTES_MAX ((size_t)4 << 20)    /* of a reply that is not a value */
#define MR_REDIS_REPLY_ITEMS_MAX 65536u               /* elements of one array */
#define MR_REDIS_SKIP_BYTES_MAX  ((size_t)16 << 20)   /* longest unwanted value that is read past */
#define MR_REDIS_CANCEL_NS       ((uint64_t)10000000) /* time to read past an unwanted value */

struct mr_redis_reader;

struct mr_redis_reader_stats {
    uint64_t received_bytes;
    uint64_t value_bytes;  /* of values received */
    uint64_t copied_bytes; /* of those, received with the reply's first line and then moved */
};

enum mr_status mr_redis_reader_create(struct mr_redis_reader **out, struct mr_error *err);
/* reader may be NULL. */
void mr_redis_reader_destroy(struct mr_redis_reader *reader);
/* Starts over for a new connection. MR_NOMEM. */
enum mr_status mr_redis_reader_reset(struct mr_redis_reader *reader, struct mr_error *err);

/* One read from the link. op: the oldest command without a reply, NULL: none; values_pending:
 * whether any command in flight expects a value. Returns as mr_redis_link_read. */
ssize_t mr_redis_reader_receive(struct mr_redis_reader *reader, struct mr_redis_link *link,
                                struct mr_redis_op *op, bool values_pending);

enum mr_redis_read {
    MR_READ_MORE,     /* the reply is not complete: receive more */
    MR_READ_REPLY,    /* op has its outcome, reply or error text */
    MR_READ_MALFORMED /* close the connection; *reason says why */
};
/* Takes op's reply from what was received. Call it again with the next op after MR_READ_REPLY. */
enum mr_redis_read mr_redis_reader_next(struct mr_redis_reader *reader, struct mr_redis_op *op,
                                        uint64_t now_ns, const char **reason);
/* op, the oldest in flight, was cancelled: the rest of its value is read past, for at most
 * MR_REDIS_CANCEL_NS, and no longer stored. */
void mr_redis_reader_cancel(struct mr_redis_reader *reader, struct mr_redis_op *op,
                            uint64_t now_ns);
struct mr_redis_reader_stats mr_redis_reader_stats(const struct mr_redis_reader *reader);

#endif
