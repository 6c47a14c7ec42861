/* redis_thread - one thread with one connection to Redis: it takes slices from the queue
 * (kvcache/remote/remote_queue.h), runs their commands, verifies received slices, and reports the
 * end of each command to the queue. Thread 0 also ends the slices whose deadline has passed. Every
 * thread runs the small commands of other threads (worker/remote_cache/redis_call.h); a thread
 * without a queue runs only these.
 *
 * _step does all the work, never blocks and reads no clock. _start runs _step in a separate thread
 * (worker/base/thread.h), which sleeps until its wake is rung, a socket has an event, or the time
 * that _step returned. A simulation leaves out _start and calls _step itself.
 *
 * Threads: _create, _start, _stop and _destroy: the owner; _call: any; `notify` and `on_ready` are
 * called from _step. Memory: two slices in flight; with encryption also two encrypted payloads.
 * Errors: only _create and _start return errors. */
#ifndef MR_WORKER_REMOTE_CACHE_REDIS_THREAD_H
#define MR_WORKER_REMOTE_CACHE_REDIS_THREAD_H

#include "kvcache/remote/remote_queue.h"
#include "worker/base/log.h"
#include "worker/remote_cache/redis_call.h"

struct mr_redis_thread;

struct mr_redis_thread_options {
    /* NULL: this thread runs only the small commands of mr_redis_thread_call */
    struct mr_remote_queue *queue;
    uint32_t index;            /* this thread's index in the queue */
    struct mr_redis_port port; /* destroyed with the thread, also when _create fails */
    uint64_t ttl_s; /* time to live of stored slices, in seconds; 0: they do not expire */
    const struct mr_frame_secret *secrets; /* [secret_count] keys; the first one encrypts; copied */
    size_t secret_count;
    struct mr_log *log;               /* NULL: no log */
    struct mr_heartbeats *heartbeats; /* watches the thread; NULL: none */
    /* called when the queue has answers for the engine; NULL if queue is NULL */
    void (*notify)(void *context);
    /* Called when the connection became ready; the function may call mr_redis_thread_call. NULL:
     * not called. */
    void (*on_ready)(void *context, struct mr_redis_thread *thread);
    void *context;
};

enum mr_status mr_redis_thread_create(struct mr_redis_thread **out,
                                      const struct mr_redis_thread_options *options,
                                      struct mr_error *err);
/* From now on _step runs in an operating system thread of this name (at most 15 bytes). */
enum mr_status mr_redis_thread_start(struct mr_redis_thread *thread, const char *name,
                                     struct mr_error *err);
/* Ends the thread and all commands in flight: slices of the queue end as failed, the
 * commands of _call end with the outcome MR_REDIS_LOST; later calls of _call are refused. False:
 * the thread has not ended within timeout_ms, so it must not be destroyed. */
bool mr_redis_thread_stop(struct mr_redis_thread *thread, uint32_t timeout_ms);
/* Call it after _stop. thread may be NULL. */
void mr_redis_thread_destroy(struct mr_redis_thread *thread);

/* Does all work that is possible at now_ns, which must not decrease. Returns when to call _step
 * again even if the wake is not rung and no socket has an event. */
uint64_t mr_redis_thread_step(struct mr_redis_thread *thread, uint64_t now_ns);

/* Like mr_redis_calls_post, with the reply delivered on this thread. */
bool mr_redis_thread_call(struct mr_redis_thread *thread, const struct mr_redis_call *calls,
                          size_t count);
/* The password of every later login to Redis; shorter than MR_REDIS_SECRET_BYTES; copied. Threads:
 * any. */
void mr_redis_thread_set_password(struct mr_redis_thread *thread, const char *password);
/* Copies the connection's statistics. reason: why a connection was closed most recently, at most
 * reason_bytes with the NUL. Threads: any. */
struct mr_redis_client_stats mr_redis_thread_stats(struct mr_redis_thread *thread, char *reason,
                                                   size_t reason_bytes);

#endif
