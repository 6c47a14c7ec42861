/* exchange - one HTTP call that is answered through Kafka, and the table of those in flight.
 *
 * The HTTP thread creates an exchange when a call's head arrives, reads the body into it, and adds
 * it to the table under the id of its request. The Kafka thread publishes the record, writes the
 * answer into `out`, and removes the exchange from the table. The exchange is freed when both have
 * dropped it.
 *
 * While an exchange waits, its connection is suspended in the HTTP library. The flag `suspended` is
 * set and cleared under the lock, and whoever clears it resumes the connection, once. Data is
 * written before the flag is cleared, so that no data waits for a suspended connection.
 *
 * Threads: the HTTP thread and the Kafka thread; each field names its owner. One lock, held for
 *          copies of memory only.
 * Memory:  bodies and answers of all exchanges together have at most `bytes_max`; an exchange whose
 *          bytes do not fit is refused or ended.
 * Errors:  _create MR_NOMEM; _add as its enum. */
#ifndef MR_WORKER_GATEWAY_EXCHANGE_H
#define MR_WORKER_GATEWAY_EXCHANGE_H

#include "codec/buffer.h"
#include "codec/hash_table.h"
#include "codec/openai/endpoint.h"
#include "worker/base/wake.h"

#include <pthread.h>

#define MR_EXCHANGE_ID_BYTES     ((size_t)129)
#define MR_EXCHANGE_TENANT_BYTES ((size_t)129)
/* a stream's reader is too slow if more bytes than these are unread when a part is appended */
#define MR_EXCHANGE_STREAM_BYTES ((size_t)1 << 20)
/* an answer that is not streamed: the largest result, and its texts twice */
#define MR_EXCHANGE_REPLY_BYTES ((size_t)128 << 20)

struct MHD_Connection;
struct mr_key;

struct mr_exchange {
    struct mr_exchanges *exchanges;

    /* of the HTTP thread */
    struct MHD_Connection *connection;
    bool is_dispatched; /* the body was read and handled */
    bool is_answered;   /* a response was queued */
    bool is_too_large;  /* the body is larger than the limit; its bytes are dropped */
    uint64_t discarded_bytes;
    int fd; /* the connection's socket while it is watched; -1: it is not */

    /* set by the HTTP thread before _add, constant afterwards */
    uint64_t serial; /* of this exchange, never used again */
    char id[MR_EXCHANGE_ID_BYTES];
    enum mr_openai_endpoint endpoint;
    bool is_stream, has_usage_chunk;
    bool is_idempotent; /* the client chose the id: the request goes on if the client leaves */
    uint32_t choice_count;
    struct mr_buffer body; /* JSON of the call; also read by the Kafka thread */
    char model[256];       /* of the call, or the fleet's */
    const char *topic;     /* requests topic; of the configuration or the key */
    struct mr_key *key;    /* held; NULL: there are no keys */
    char *record;          /* value of the request record */
    size_t record_length;
    char record_key[MR_EXCHANGE_ID_BYTES], trace_parent[64];
    int64_t created_s, deadline_ms; /* Unix time; deadline_ms 0: in the record */
    uint64_t start_ns, deadline_ns; /* monotonic time */

    /* of the Kafka thread */
    struct mr_openai_stream *stream; /* NULL: not begun */
    bool is_published, is_removed;
    bool has_token; /* a token record was read */

    /* under the table's lock */
    struct mr_hash_entry hash;
    struct mr_exchange *next_mail, *next_resume;
    bool in_table, in_mail;
    bool is_left;     /* the client is gone */
    bool is_replaced; /* another call took the place in the table */
    bool is_done;     /* `out` is complete */
    bool is_begun;    /* the answer is a stream whose head may be sent */
    bool suspended;
    unsigned references;
    unsigned status;        /* HTTP status; valid once done or begun */
    uint32_t retry_after_s; /* header of an error; 0: none */
    bool no_retry;          /* header x-should-retry: false */
    struct mr_buffer out;
    size_t out_read;     /* bytes of `out` that the HTTP thread has taken */
    uint64_t comment_ns; /* when a stream gets its next comment */
};

struct mr_exchanges {
    pthread_mutex_t lock;
    const struct mr_wake *wake;                 /* of the Kafka thread */
    struct mr_hash_table table;                 /* by id */
    struct mr_exchange *mail_first, *mail_last; /* for the Kafka thread */
    uint32_t count_max;
    size_t bytes, bytes_max; /* of all bodies and answers */
    uint64_t serial;
    bool is_closed; /* no exchange is added any more */
};

enum mr_status mr_exchanges_open(struct mr_exchanges *exchanges, const struct mr_wake *wake,
                                 uint32_t count_max, size_t bytes_max, struct mr_error *err);
void mr_exchanges_close(struct mr_exchanges *exchanges);
/* A new exchange with one reference, of the HTTP thread; NULL: no memory. */
struct mr_exchange *
mr_exchange_create(struct mr_exchanges *exchanges,
                   struct MHD_Connection *connection); /* Drops one reference. The key is released
                                                          and the memory freed with the last one. */
void mr_exchange_drop(struct mr_exchanges *exchanges, struct mr_exchange *exchange);
/* HTTP thread. False: no room. */
bool mr_exchange_add_body(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                          struct mr_text part);
enum mr_exchange_added {
    MR_EXCHANGE_ADDED,
    /* a call with this id is in flight, and its client is connected or its record differs */
    MR_EXCHANGE_SAME_ID,
    MR_EXCHANGE_FULL /* too many calls are in flight */
};
/* HTTP thread: adds the exchange to the table, which takes a reference, and posts it to the Kafka
 * thread. A call whose client has left and that has the same id and record is replaced. */
enum mr_exchange_added mr_exchanges_add(struct mr_exchanges *exchanges,
                                        struct mr_exchange *exchange);
/* Posts the exchange to the Kafka thread. Needs the lock. */
void mr_exchanges_post(struct mr_exchanges *exchanges, struct mr_exchange *exchange);
/* ---- Kafka thread ---- */
/* The next posted exchange, with a reference that the caller drops; NULL: none. */
struct mr_exchange *
mr_exchanges_take(struct mr_exchanges *exchanges); /* The exchange with this id; NULL: none. It
                                                      lives until the Kafka thread removes it. */
struct mr_exchange *mr_exchanges_find(struct mr_exchanges *exchanges, struct mr_text id);
/* Removes the exchange from the table and drops the table's reference; does nothing the second
 * time.
 */
void mr_exchanges_remove(struct mr_exchanges *exchanges, struct mr_exchange *exchange);

struct mr_exchange_resumes {
    struct mr_exchange *first; /* whose connections are to be resumed */
};
/* Wakes the connection later, by _resume. Needs the lock. */
void mr_exchange_rouse(struct mr_exchange_resumes *resumes, struct mr_exchange *exchange);
/* Appends to the answer of a stream. False: the reader is too slow or memory is out; nothing was
 * appended. Needs the lock. */
bool mr_exchange_append(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                        struct mr_text part);
/* Appends the end of a stream, whatever its reader has left. Needs the lock. */
void mr_exchange_end(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                     struct mr_text part);
/* Makes this text, malloc'ed, the whole answer. Takes ownership. Needs the lock. */
void mr_exchange_answer(struct mr_exchanges *exchanges, struct mr_exchange *exchange,
                        unsigned status, char *text, size_t length);

#endif
