/* redis_op - one command to Redis and its reply, and FIFO lists of commands.
 *
 * A command is a list of buffers that are sent one after the other without copying. Values (KV
 * blocks) are neither formatted nor parsed by a library: SET is a short text, the frame header, the
 * payload and a short text again; the reply to GET is received straight into header and payload.
 * Other commands and all other replies go through kvcache/remote/redis_reply.h.
 *
 * Owner: one thread at a time. Memory: the caller owns the struct and what its parts point at, and
 * keeps both unchanged from _send until the op comes back. Errors: outcomes. */
#ifndef MR_KVCACHE_REMOTE_REDIS_OP_H
#define MR_KVCACHE_REMOTE_REDIS_OP_H

#include "kvcache/remote/redis_slots.h"

#include <sys/uio.h>

#define MR_REDIS_OP_PARTS    4
#define MR_REDIS_TEXT_BYTES  ((size_t)224)
#define MR_REDIS_ERROR_BYTES ((size_t)160)
/* longest key, in bytes, of SET, GET and the other commands made here */
#define MR_REDIS_KEY_BYTES ((size_t)128)

enum mr_redis_outcome {
    MR_REDIS_IN_FLIGHT,
    MR_REDIS_DONE,
    MR_REDIS_MISS,       /* no such key, or the command was cancelled */
    MR_REDIS_WRONG_SIZE, /* the value has another length than expected */
    MR_REDIS_MOVED,      /* the key is on another node of the cluster */
    MR_REDIS_BUSY,       /* the server is loading data, running a script, or has no master */
    MR_REDIS_FULL,       /* the server is out of memory */
    MR_REDIS_DENIED,     /* authentication failed, or permission is missing */
    MR_REDIS_READ_ONLY,  /* the server is a read-only replica */
    MR_REDIS_REFUSED,    /* any other error reply */
    MR_REDIS_MALFORMED,  /* the reply is not valid */
    MR_REDIS_TIMEOUT,
    MR_REDIS_LOST, /* the connection closed, or could not take the command */
    MR_REDIS_OUTCOME_COUNT
};

struct mr_redis_reply; /* see kvcache/remote/redis_reply.h */

struct mr_redis_op {
    struct mr_redis_op *next; /* private: the next op in its list */
    struct iovec out[MR_REDIS_OP_PARTS];
    int out_count;
    char text[MR_REDIS_TEXT_BYTES]; /* text of a command made by _set, _get, _word or _expire */
    char *words;                    /* text of any other command; owned by the op */
    bool bulk; /* true: the reply is a value of exactly into[0] + into[1] bytes */
    struct iovec into[2];
    /* Called with the bytes of a value as they are received, in order; NULL: not called. */
    void (*on_bytes)(struct mr_redis_op *op, const void *bytes, size_t length);
    /* hash slot of the key; MR_REDIS_SLOTS: the command has no key and any node will do */
    uint32_t slot;
    uint64_t deadline_ns; /* when this time has passed without a reply, the connection is closed */
    void *owner;          /* for the caller's use */

    enum mr_redis_outcome outcome;
    struct mr_redis_reply *reply;     /* the reply, owned by the op; NULL if the reply is a value */
    char error[MR_REDIS_ERROR_BYTES]; /* the server's error text without '-', cut to fit */
    /* The fields below are private to kvcache/remote/. */
    size_t sent; /* bytes of the command sent */
    uint32_t redirects;
    bool asking; /* the ASKING command must be sent before this one */
    bool cancelled;
};

/* A value in Redis: header, then payload (block_frame.h). */
struct mr_redis_value {
    const char *key; /* [key_length], at most MR_REDIS_KEY_BYTES */
    size_t key_length;
    void *header, *payload;
    size_t header_length, length;
};
/* _set makes "SET key value EX ttl_s" (ttl_s 0: without EX); _get makes "GET key", whose reply is
 * received into value's header and payload. */
void mr_redis_op_set(struct mr_redis_op *op, const struct mr_redis_value *value, uint64_t ttl_s);
void mr_redis_op_get(struct mr_redis_op *op, const struct mr_redis_value *value);
/* Makes a command whose only argument is a key: "STRLEN key", "DEL key". */
void mr_redis_op_word(struct mr_redis_op *op, const char *word, const char *key, size_t key_length);
void mr_redis_op_expire(struct mr_redis_op *op, const char *key, size_t key_length, uint64_t ttl_s);

/* Bytes of the whole command. */
size_t mr_redis_op_length(const struct mr_redis_op *op);
/* Bytes of the value that the command expects as its reply. */
size_t mr_redis_op_value_length(const struct mr_redis_op *op);
/* The outcome for an error reply; error: the reply's text without '-'. */
enum mr_redis_outcome mr_redis_outcome_of(const char *error, size_t length);

/* Copies the buffers in parts[0..count) without their first `skip` bytes to `out`, leaving out
 * empty buffers. Returns how many buffers it wrote. */
int mr_redis_parts_from(const struct iovec *parts, int count, size_t skip, struct iovec *out);

/* FIFO list of ops; zeroed memory is an empty list. An op is in one list at most. */
struct mr_redis_op_list {
    struct mr_redis_op *first, *last;
    uint32_t count;
};

void mr_redis_op_list_push(struct mr_redis_op_list *list, struct mr_redis_op *op);
/* Removes and returns the first op; NULL when the list is empty. */
struct mr_redis_op *mr_redis_op_list_pop(struct mr_redis_op_list *list);
/* Removes an op from the list. False: the op is not in the list. */
bool mr_redis_op_list_remove(struct mr_redis_op_list *list, struct mr_redis_op *op);

#endif
