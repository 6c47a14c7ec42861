/* tier_thread - one connection thread: drives one Redis port, takes parts from the tier's queue,
 * runs their commands, verifies values, and finishes the parts; thread 0 also expires parts. Every
 * thread runs small commands of other threads (worker/redis/redis_call.h); a thread without a queue
 * runs nothing else.
 *
 * _step does all the work; it never blocks and reads no clock. _start runs it in a thread of its
 * own (worker/base/thread.h), which sleeps on its doorbell, its sockets and the returned time. A
 * simulation leaves _start out and calls _step itself.
 *
 * Threads: _create, _start, _stop and _destroy the owner; _call any; `notify` and `on_ready` are
 *          called from _step.
 * Memory:  two values in flight, with encryption also two sealed slices. Errors: _create's. */
#ifndef MR_WORKER_REDIS_TIER_THREAD_H
#define MR_WORKER_REDIS_TIER_THREAD_H

#include "worker/base/log.h"
#include "worker/redis/redis_call.h"
#include "worker/redis/tier_queue.h"

struct mr_tier_thread;

struct mr_tier_thread_options {
    struct mr_tier_queue *queue;           /* NULL: calls only */
    uint32_t index;                        /* in the queue */
    struct mr_redis_port port;             /* destroyed with the thread, also when _create fails */
    uint64_t ttl_s;                        /* of values; 0: they do not expire */
    const struct mr_frame_secret *secrets; /* [secret_count], the first one seals; copied */
    size_t secret_count;
    struct mr_log *log;            /* NULL: none */
    void (*notify)(void *context); /* the queue has answers; NULL without a queue */
    /* The connection became ready; may call _call. NULL: not called. */
    void (*on_ready)(void *context, struct mr_tier_thread *thread);
    void *context;
};

enum mr_status mr_tier_thread_create(struct mr_tier_thread **out,
                                     const struct mr_tier_thread_options *options,
                                     struct mr_error *err);
/* Runs _step in a thread of this name (at most 15 bytes) from now on. */
enum mr_status mr_tier_thread_start(struct mr_tier_thread *thread, const char *name,
                                    struct mr_error *err);
/* Ends the thread and everything in flight: parts are finished as failed, calls as MR_REDIS_LOST;
 * later calls are refused. */
void mr_tier_thread_stop(struct mr_tier_thread *thread);
/* After _stop. thread may be NULL. */
void mr_tier_thread_destroy(struct mr_tier_thread *thread);

/* Does what can be done at now_ns. Returns when to call it again, even if no doorbell rings and no
 * socket has an event. now_ns must not decrease. */
uint64_t mr_tier_thread_step(struct mr_tier_thread *thread, uint64_t now_ns);

/* As mr_redis_calls_post. */
bool mr_tier_thread_call(struct mr_tier_thread *thread, const struct mr_redis_call *calls,
                         size_t count);
/* A snapshot. reason: why a connection closed last, at most reason_bytes with NUL. Threads: any. */
struct mr_redis_client_stats mr_tier_thread_stats(struct mr_tier_thread *thread, char *reason,
                                                  size_t reason_bytes);

#endif
