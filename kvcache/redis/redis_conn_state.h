/* redis_conn_state - what the two parts of a connection share: kvcache/redis/redis_conn.c (life,
 * writing, hiredis) and kvcache/redis/redis_read.c (replies). Nobody else includes it. Owner: one
 * thread. */
#ifndef MR_KVCACHE_REDIS_REDIS_CONN_STATE_H
#define MR_KVCACHE_REDIS_REDIS_CONN_STATE_H

#include "kvcache/redis/redis_conn.h"

#define INPUT_BYTES  ((size_t)16384)
#define SKIP_BYTES   ((size_t)65536)
#define GREETING_MAX 3

enum mr_conn_life { MR_LIFE_CLOSED, MR_LIFE_CONNECTING, MR_LIFE_GREETING, MR_LIFE_READY };
/* Of the reply that is being read. */
enum mr_conn_phase { MR_PHASE_LINE, MR_PHASE_PAYLOAD, MR_PHASE_SKIP, MR_PHASE_END };

struct mr_redis_conn {
    struct mr_redis_conn_options options;
    struct mr_redis_link link;
    enum mr_conn_life life;
    uint64_t ready_by_ns;
    char reason[MR_ERROR_DETAIL_BYTES];

    struct mr_redis_op *oldest, *newest; /* sent or to be sent, in order */
    struct mr_redis_op *writing;         /* first not sent whole */
    uint32_t in_flight, values;          /* values: those of them that wait for one */
    struct mr_redis_op *done_first, *done_last;
    struct mr_redis_op greeting[GREETING_MAX];

    char input[INPUT_BYTES];
    size_t in_begin, in_end;
    enum mr_conn_phase phase;
    size_t got;                    /* bytes of the payload, or of what is skipped */
    size_t skip;                   /* bytes to read past */
    enum mr_redis_outcome verdict; /* of the op whose reply is being skipped */
    void *reader;                  /* hiredis' */
    size_t text_left;              /* of a text inside the reply that the reader is fed with */
    size_t reply_bytes;            /* fed so far */
    char skipped[SKIP_BYTES];
    struct mr_redis_conn_stats stats;
};

/* redis_conn.c */

/* Everything on its way ends: LATE what was due, the oldest with why, the rest LOST. */
void mr_redis_conn_fail(struct mr_redis_conn *conn, enum mr_redis_outcome why, uint64_t now_ns,
                        const char *reason);
bool mr_redis_conn_is_greeting(const struct mr_redis_conn *conn, const struct mr_redis_op *op);
void mr_redis_conn_hand_back(struct mr_redis_conn *conn, struct mr_redis_op *op);
/* Gives the parser bytes of one reply; *reply when that was all of it (its error text instead, if
 * it is one). False: no such reply exists. */
struct mr_redis_parsed {
    struct mr_redis_reply *reply; /* owned by the caller; NULL: more bytes are needed */
    bool is_error;
};
bool mr_redis_conn_parse(struct mr_redis_conn *conn, const char *bytes, size_t length,
                         struct mr_redis_parsed *parsed);
void mr_redis_reply_free(struct mr_redis_reply *reply);

/* A value that nobody wants has begun to come. */
void mr_redis_conn_hurry(struct mr_redis_op *op, uint64_t now_ns);

/* redis_read.c: one read and what it completes; as mr_redis_link_read. */
ssize_t mr_redis_conn_read(struct mr_redis_conn *conn, uint64_t now_ns);
/* Bytes of the value that op waits for. */
size_t mr_redis_op_value_length(const struct mr_redis_op *op);

#endif
