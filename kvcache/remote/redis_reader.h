/* redis_reader - reads the replies on one connection, in the order of the commands. Values
 * (redis_op.h) are received straight into the caller's memory; every other reply is parsed by
 * redis_reply.h.
 *
 * The parser is fed exactly the bytes of one reply, so it never holds a byte of the value that
 * follows. A declared length beyond the limits below is refused before memory is allocated for it.
 * After an error the caller closes the connection: a later reply is never taken for that of an
 * earlier command.
 *
 * Owner: one thread. Memory: all in _create but the parser's, bounded by the limits. Errors:
 * MR_NOMEM; MR_READ_MALFORMED. */
#ifndef MR_KVCACHE_REMOTE_REDIS_READER_H
#define MR_KVCACHE_REMOTE_REDIS_READER_H

#include "kvcache/remote/redis_link.h"
#include "kvcache/remote/redis_op.h"

#define MR_REDIS_REPLY_BYTES_MAX ((size_t)4 << 20) /* most bytes of a reply that is not a value */
#define MR_REDIS_REPLY_ITEMS_MAX 65536u            /* most elements of one array in a reply */
/* longest unwanted value that is read and discarded; for a longer one the connection is closed */
#define MR_REDIS_SKIP_BYTES_MAX ((size_t)16 << 20)
/* longest time for reading and discarding an unwanted value */
#define MR_REDIS_CANCEL_NS ((uint64_t)10000000)

struct mr_redis_reader;

struct mr_redis_reader_stats {
    uint64_t received_bytes;
    uint64_t value_bytes; /* bytes of values received */
    /* part of value_bytes: bytes received with a reply's first line and then copied */
    uint64_t copied_bytes;
};

enum mr_status mr_redis_reader_create(struct mr_redis_reader **out, struct mr_error *err);
/* reader may be NULL. */
void mr_redis_reader_destroy(struct mr_redis_reader *reader);
/* Prepares the reader for a new connection. Fails with MR_NOMEM only. */
enum mr_status mr_redis_reader_reset(struct mr_redis_reader *reader, struct mr_error *err);

/* Makes one read from the link. op: the oldest command without a reply, NULL: none; values_pending:
 * whether any command in flight expects a value. Returns what mr_redis_link_read returned. */
ssize_t mr_redis_reader_receive(struct mr_redis_reader *reader, struct mr_redis_link *link,
                                struct mr_redis_op *op, bool values_pending);

enum mr_redis_read {
    MR_READ_MORE,     /* the reply is not complete: receive more bytes */
    MR_READ_REPLY,    /* op now has its outcome, and its reply or error text */
    MR_READ_MALFORMED /* close the connection; *reason says why */
};
/* Parses op's reply from the bytes received. After MR_READ_REPLY call it again with the next op. */
enum mr_redis_read mr_redis_reader_next(struct mr_redis_reader *reader, struct mr_redis_op *op,
                                        uint64_t now_ns, const char **reason);
/* op, the oldest command in flight, was cancelled: the rest of its value is no longer stored, but
 * read and discarded for at most MR_REDIS_CANCEL_NS. Its outcome is MR_REDIS_MISS, however much of
 * the value was stored before. */
void mr_redis_reader_cancel(struct mr_redis_reader *reader, struct mr_redis_op *op,
                            uint64_t now_ns);
struct mr_redis_reader_stats mr_redis_reader_stats(const struct mr_redis_reader *reader);

#endif
