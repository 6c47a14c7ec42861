/* tier_lane - one thread with one connection to Redis (one to each node of a cluster): takes parts
 * from the tier's queue, runs their commands, verifies what came, finishes them; the first lane
 * also ends what is late. Any lane runs small commands of other threads (calls); one without a
 * queue runs nothing else.
 *
 * It sleeps on its doorbell, its sockets and the next deadline, whichever is first, and never
 * touches what a part points at after it has finished or released it.
 *
 * Threads: _create and _destroy the owner's, _call any; `notify` and `met` are called on the
 * lane's. Memory: two commands on their way, and with encryption two sealed slices. Errors:
 * _create's. */
#ifndef MR_WORKER_REDIS_TIER_THREAD_H
#define MR_WORKER_REDIS_TIER_THREAD_H

#include "kvcache/redis/redis_client.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/redis/tier_queue.h"

struct mr_tier_thread;

struct mr_tier_secret {
    uint32_t id;
    unsigned char key[MR_AES_KEY_BYTES];
};

struct mr_tier_thread_options {
    struct mr_tier_queue *queue; /* NULL: calls only */
    uint32_t index;
    struct mr_redis_conn_options conn;
    uint64_t seed;                        /* of the jitter */
    uint64_t ttl_s;                       /* of values; 0: none */
    const struct mr_tier_secret *secrets; /* [secret_count], the first one seals; copied */
    size_t secret_count;
    struct mr_log *log;            /* NULL: none */
    void (*notify)(void *context); /* answers came */
    /* The server answers, for the first time or again; may call. NULL: nobody is told. */
    void (*met)(void *context, struct mr_tier_thread *lane);
    void *context;
};

/* A command of someone else; see _call. */
struct mr_tier_call {
    const char *const *words; /* [count], the second one the key */
    const size_t *lengths;
    int count;
    uint64_t timeout_ns;
    /* Once, on the lane's thread. reply: of MR_REDIS_DONE, for the call's duration. */
    void (*done)(void *context, enum mr_redis_outcome outcome, const struct mr_redis_reply *reply);
    void *context;
};

enum mr_status mr_tier_thread_create(struct mr_tier_thread **out,
                                     const struct mr_tier_thread_options *options,
                                     struct mr_error *err);
/* Ends its thread: what it had is finished as not done, calls are told, later ones refused. */
void mr_tier_thread_stop(struct mr_tier_thread *lane);
/* After _stop. lane may be NULL. */
void mr_tier_thread_destroy(struct mr_tier_thread *lane);

/* calls[count] go out in one burst, in order. Copies the words. False: too many wait, and no `done`
 * is called. */
bool mr_tier_thread_call(struct mr_tier_thread *lane, const struct mr_tier_call *calls,
                         size_t count);
/* A snapshot; its reason, at most reason_bytes with NUL, is why a connection ended last. */
struct mr_redis_client_stats mr_tier_thread_stats(struct mr_tier_thread *lane, char *reason,
                                                  size_t reason_bytes);

#endif
