/* redis_op - one command on its way to Redis and what came back.
 *
 * A command is a list of parts that go out one after the other, from where they lie. Values of the
 * tier are neither formatted nor parsed by a library: SET is a short text, the frame header, the
 * payload and a short text again; the reply of GET is received into header and payload. All other
 * commands and replies go through kvcache/redis/redis_conn.h.
 *
 * Owner: one thread at a time. Memory: the struct is the caller's and stays where it is from _send
 * to its end; so does what its parts point at. Errors: outcomes. */
#ifndef MR_KVCACHE_REDIS_REDIS_OP_H
#define MR_KVCACHE_REDIS_REDIS_OP_H

#include "kvcache/redis/redis_slots.h"

#include <sys/uio.h>

#define MR_REDIS_OP_PARTS    4
#define MR_REDIS_TEXT_BYTES  ((size_t)224)
#define MR_REDIS_ERROR_BYTES ((size_t)160)
#define MR_REDIS_KEY_BYTES   ((size_t)128) /* longest key of the commands made here */

/* X(name, what it is) */
#define MR_OUTCOME_LIST(X)                                                                         \
    X(OPEN, "on its way")                                                                          \
    X(DONE, "done")                                                                                \
    X(MISS, "not there")                                                                           \
    X(WRONG_SIZE, "of another size")                                                               \
    X(MOVED, "on another node")                                                                    \
    X(BUSY, "loading, busy or without a master")                                                   \
    X(FULL, "out of memory")                                                                       \
    X(DENIED, "not allowed")                                                                       \
    X(READ_ONLY, "a read-only replica")                                                            \
    X(REFUSED, "refused")                                                                          \
    X(GARBAGE, "not a reply")                                                                      \
    X(LATE, "too late")                                                                            \
    X(LOST, "connection lost")

enum mr_redis_outcome {
#define X(name, text) MR_REDIS_##name,
    MR_OUTCOME_LIST(X)
#undef X
        MR_REDIS_OUTCOME_COUNT
};

struct mr_redis_reply; /* kvcache/redis/redis_conn.h */

struct mr_redis_op {
    struct mr_redis_op *next; /* private while on its way; the list it came back in */
    struct iovec out[MR_REDIS_OP_PARTS];
    int out_count;
    char text[MR_REDIS_TEXT_BYTES]; /* the words of _set and _get */
    char *words;                    /* of other commands; owned */
    bool bulk;                      /* the reply is a value of exactly into[0] + into[1] bytes */
    struct iovec into[2];
    /* Told of a value's bytes in their order, while they are near; NULL: nobody is told. */
    void (*arrived)(struct mr_redis_op *op, const void *bytes, size_t length);
    uint32_t slot;        /* of its key; MR_REDIS_SLOTS: any node will do */
    uint64_t deadline_ns; /* then its connection is closed */
    void *owner;          /* the caller's */

    enum mr_redis_outcome outcome;
    struct mr_redis_reply *reply;     /* not for bulk; owned */
    char error[MR_REDIS_ERROR_BYTES]; /* the server's words after '-', cut */
    /* private to kvcache/ */
    size_t sent;
    uint32_t redirects;
    bool asking, forgotten;
};

/* "SET key <header, payload> EX ttl" and "GET key" into header and payload. header is frame's 64
 * bytes.
 */
struct mr_redis_value {
    const char *key; /* [key_length], at most MR_REDIS_KEY_BYTES */
    size_t key_length;
    void *header, *payload;
    size_t header_length, length;
};
void mr_redis_op_set(struct mr_redis_op *op, const struct mr_redis_value *value, uint64_t ttl_s);
void mr_redis_op_get(struct mr_redis_op *op, const struct mr_redis_value *value);
/* "STRLEN key", "DEL key"; "EXPIRE key seconds" */
void mr_redis_op_word(struct mr_redis_op *op, const char *word, const char *key, size_t key_length);
void mr_redis_op_expire(struct mr_redis_op *op, const char *key, size_t key_length, uint64_t ttl_s);

/* What the words of an error reply (without '-') mean. */
enum mr_redis_outcome mr_redis_outcome_of(const char *error, size_t length);
/* Static text. */
const char *mr_redis_outcome_text(enum mr_redis_outcome outcome);

#endif
