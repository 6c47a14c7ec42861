/* remote_queue - the queue between the engine and the threads that hold the connections to Redis.
 * The engine posts operations (kvcache/remote_cache.h) and polls for answers. The queue cuts the
 * values of an operation into slices. A connection thread takes a slice, runs its Redis commands
 * and reports their end. The queue then decides which values are complete, which answers the engine
 * gets and which slices come next.
 *
 * Thread 0 runs lookups only, so that a lookup never waits for the transfer of a slice. A store
 * begins with a lookup too, so that no slice is written twice. The other threads run loads and
 * stores, loads first. The bytes of loads in flight are limited (mr_load_pace). When the last
 * connection is lost, slices that no thread has taken end at once.
 *
 * Sources: kvcache/remote/remote_queue.c (the lock, admission),
 * kvcache/remote/remote_queue_operations.c (the next steps), kvcache/remote/remote_queue_slices.c
 * (cutting), kvcache/remote/remote_queue_memory.c, kvcache/remote/remote_queue_pace.c. Threads:
 * any; one lock, held only briefly and never by a caller. Memory: all in _create; at most
 * MR_REMOTE_OPERATIONS_MAX operations, and store_bytes_max bytes of stores, or one value that is
 * larger. Errors: _post takes fewer values, or none, at a limit. Clock: passed in. */
#ifndef MR_KVCACHE_REMOTE_REMOTE_QUEUE_H
#define MR_KVCACHE_REMOTE_REMOTE_QUEUE_H

#include "kvcache/remote/redis_command.h"
#include "kvcache/remote/remote_stats.h"
#include "kvcache/remote_cache.h"

#define MR_REMOTE_OPERATIONS_MAX 1024u
#define MR_REMOTE_THREADS_MAX    17u
#define MR_REMOTE_KEY_BYTES      80u

/* The Redis command that a slice runs next. LOOKUP: STRLEN; CLEANUP follows a GET: EXPIRE, or DEL
 * of a damaged slice. */
enum mr_remote_step {
    MR_REMOTE_STEP_LOOKUP,
    MR_REMOTE_STEP_GET,
    MR_REMOTE_STEP_SET,
    MR_REMOTE_STEP_CLEANUP
};

/* One slice of one value. command, digest, header and payload belong to the connection thread that
 * has taken the slice; the queue owns the rest. */
struct mr_remote_slice {
    struct mr_redis_command command; /* command.owner: this struct */
    struct mr_queued_operation *operation;
    struct mr_remote_slice *next; /* for use by the connection thread */
    enum mr_remote_step step;
    struct mr_frame frame;          /* frame.length: bytes of the payload */
    struct mr_frame_digest *digest; /* of the slice while it is received; NULL: none */
    void *payload;
    uint32_t value;              /* index of the value in the operation */
    uint32_t key_length, thread; /* thread: index of the connection thread */
    uint64_t deadline_ns;
    unsigned char header[MR_FRAME_BYTES];
    char key[MR_REMOTE_KEY_BYTES]; /* of the slice in Redis */
    bool unanswered;               /* set by the thread: Redis did not answer the LOOKUP */
    bool damaged;  /* set by _damaged: the received slice did not verify; CLEANUP deletes it */
    bool released; /* set by _release: the engine owns the memory again, but the command may still
                    * run
                    */
    bool present, taken; /* used by the queue only */
};

struct mr_remote_queue;

struct mr_remote_queue_options {
    uint32_t thread_count; /* connection threads, 2 .. MR_REMOTE_THREADS_MAX */
    uint64_t lookup_timeout_ns;
    uint64_t transfer_timeout_ns; /* of a load or store, including the time in the queue */
    uint64_t store_bytes_max;
    uint64_t
        write_budget; /* bytes stored per second for each tenant (byte_budget.h); 0: no limit */
    enum mr_frame_codec codec; /* how the payload of every slice is encoded */
    bool second_touch;         /* store a value only when the engine offers it a second time */
    uint64_t present_ns;       /* how long a key found in Redis is assumed to be there */
};

enum mr_status mr_remote_queue_create(struct mr_remote_queue **out,
                                      const struct mr_remote_queue_options *options,
                                      struct mr_error *err);
/* Call it when no thread has a slice. queue may be NULL. */
void mr_remote_queue_destroy(struct mr_remote_queue *queue);
/* Sets the function that wakes a connection thread, before the first operation is posted. It is
 * called by the thread that posts or finishes, without the lock, and must not block. */
void mr_remote_queue_attach(struct mr_remote_queue *queue, uint32_t thread,
                            void (*wake)(void *context), void *context);

/* ---- the engine's side: see kvcache/remote_cache.h ---- */

/* Returns how many values of the operation are accepted, from the first one on; a lookup or load is
 * accepted as a whole. 0: refused. */
uint32_t mr_remote_queue_post(struct mr_remote_queue *queue, enum mr_remote_kind kind,
                              const struct mr_remote_operation *posted, uint64_t now_ns);
void mr_remote_queue_skip(struct mr_remote_queue *queue, uint64_t id, uint32_t index);
void mr_remote_queue_cancel(struct mr_remote_queue *queue, uint64_t id);
bool mr_remote_queue_poll(struct mr_remote_queue *queue, struct mr_remote_answer *answer);
struct mr_remote_rates mr_remote_queue_rates(struct mr_remote_queue *queue);
/* While silent is true (Redis does not answer), lookups and loads are refused. Threads: any. */
void mr_remote_queue_set_silent(struct mr_remote_queue *queue, bool silent);
struct mr_remote_queue_stats mr_remote_queue_stats(struct mr_remote_queue *queue);

/* ---- the connection threads' side ---- */

/* Records whether this connection thread is connected to Redis. */
void mr_remote_queue_set_ready(struct mr_remote_queue *queue, uint32_t thread, bool ready,
                               uint64_t now_ns);
/* Records that bytes of values were received from Redis. */
void mr_remote_queue_receive(struct mr_remote_queue *queue, uint64_t bytes, uint64_t now_ns);
/* Returns the next slice for this thread; NULL: none now. */
struct mr_remote_slice *mr_remote_queue_take(struct mr_remote_queue *queue, uint32_t thread,
                                             uint64_t now_ns);
/* Call it when the command of a slice has ended, or could not be sent. good: the command succeeded
 * (for LOOKUP: Redis has the slice). True: the thread keeps the slice and runs its next command,
 * slice->step; false: the thread must no longer touch the slice. */
bool mr_remote_queue_finish(struct mr_remote_queue *queue, struct mr_remote_slice *slice, bool good,
                            uint64_t now_ns);
/* Call it when a received slice did not verify: its next command, CLEANUP, deletes it. */
void mr_remote_queue_damaged(struct mr_remote_queue *queue, struct mr_remote_slice *slice,
                             enum mr_verdict cause);
/* Call it when Redis refused a command because its memory is full, permission is missing, or it is
 * a read-only replica: stores pause. True: the caller logs the refusal; false: a refusal was logged
 * within the last minute. */
bool mr_remote_queue_refused(struct mr_remote_queue *queue, bool read_only, uint64_t now_ns);
/* When a thread last learned that Redis is a read-only replica; 0: never. */
uint64_t mr_remote_queue_read_only_ns(struct mr_remote_queue *queue);
/* Whether the engine has cancelled the slice's operation or skipped its value. If so, the thread
 * stops using the slice's payload and calls _release; it still calls _finish later. */
bool mr_remote_queue_is_cancelled(struct mr_remote_queue *queue,
                                  const struct mr_remote_slice *slice);
void mr_remote_queue_release(struct mr_remote_queue *queue, struct mr_remote_slice *slice,
                             uint64_t now_ns);
/* Ends the slices that no thread has taken before their deadline. Returns the time of the next
 * call. */
uint64_t mr_remote_queue_expire(struct mr_remote_queue *queue, uint64_t now_ns);
/* _measured reports the result of a bandwidth measurement (redis_measure.h); _needs_measure returns
 * whether one should be made. */
void mr_remote_queue_measured(struct mr_remote_queue *queue, double bytes_per_second,
                              uint64_t now_ns);
bool mr_remote_queue_needs_measure(struct mr_remote_queue *queue, uint64_t now_ns);
/* Whether an answer was posted since the last call; if so, the caller wakes the engine. */
bool mr_remote_queue_take_answered(struct mr_remote_queue *queue);

/* Asserts that all counters agree with the operations in the queue; takes time linear in their
 * number. */
void mr_remote_queue_check(struct mr_remote_queue *queue);

#endif
