/* tier_queue - the queue between the engine and the threads that hold the connections to Redis. The
 * engine posts lookups, loads and stores (kvcache/tier.h) and polls for answers. Each request is
 * cut into parts, one for each value in Redis (worker/remote_cache/tier_job.h); a connection thread
 * takes a part, runs its Redis commands and reports their end.
 *
 * Thread 0 runs lookups only, so that a lookup never waits behind the transfer of a value. A store
 * begins with such a lookup too, so that no value is written twice. The other threads run loads and
 * stores, loads first; worker/remote_cache/tier_pace.h limits the bytes of loads in flight. When
 * the last connection is lost, parts that no thread has taken end at once.
 *
 * Threads: any; one lock, held for a short time. Memory: all in _create; at most MR_TIER_JOBS_MAX
 * requests, and store_bytes_max bytes of stores, or one item that is larger. Errors: _post takes
 * fewer items, or none, when a limit is reached. Clock: passed in. */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_QUEUE_H
#define MR_WORKER_REMOTE_CACHE_TIER_QUEUE_H

#include "worker/base/wake.h"
#include "worker/remote_cache/tier_job.h"
#include "worker/remote_cache/tier_pace.h"
#include "worker/remote_cache/tier_stats.h"

#define MR_TIER_JOBS_MAX 1024u

struct mr_tier_queue;

struct mr_tier_queue_options {
    uint32_t thread_count; /* connection threads, 2 .. MR_TIER_THREADS_MAX; thread 0 runs lookups */
    uint64_t lookup_timeout_ns;
    uint64_t transfer_timeout_ns; /* limit for a load or store, the time in the queue included */
    uint64_t store_bytes_max;
    /* most bytes stored per second for each tenant (kvcache/byte_budget.h); 0: no limit */
    uint64_t write_budget;
    enum mr_frame_codec codec; /* how the payload of every value is encoded */
    /* store an item (KV block) only when the engine offers it for the second time */
    bool second_touch;
    uint64_t present_ns; /* how long a key that was found in Redis is assumed to be there */
};

enum mr_status mr_tier_queue_create(struct mr_tier_queue **out,
                                    const struct mr_tier_queue_options *options,
                                    struct mr_error *err);
/* Call it when no thread has a part (Redis value) in its hands. queue may be NULL. */
void mr_tier_queue_destroy(struct mr_tier_queue *queue);
/* Sets the wake of a connection thread; call it before the first request is posted. */
void mr_tier_queue_attach(struct mr_tier_queue *queue, uint32_t thread, const struct mr_wake *wake);

/* ---- the engine's side: see kvcache/tier.h ---- */

/* Returns how many items of the request are taken, from the first one on, which are all in a lookup
 * or load; 0: refused. */
uint32_t mr_tier_queue_post(struct mr_tier_queue *queue, enum mr_tier_work work,
                            const struct mr_tier_request *request, uint64_t now_ns);
void mr_tier_queue_skip(struct mr_tier_queue *queue, uint64_t ticket, uint32_t index);
void mr_tier_queue_abandon(struct mr_tier_queue *queue, uint64_t ticket);
bool mr_tier_queue_poll(struct mr_tier_queue *queue, struct mr_tier_answer *answer);
struct mr_tier_rates mr_tier_queue_rates(struct mr_tier_queue *queue);
/* While silent is true (Redis does not answer), lookups and loads are refused. Threads: any. */
void mr_tier_queue_set_silent(struct mr_tier_queue *queue, bool silent);
struct mr_tier_queue_stats mr_tier_queue_stats(struct mr_tier_queue *queue);

/* ---- the connection threads' side ---- */

/* Tells the queue whether this connection thread is connected to Redis. */
void mr_tier_queue_set_ready(struct mr_tier_queue *queue, uint32_t thread, bool ready,
                             uint64_t now_ns);
/* Tells the queue that bytes of values were received from Redis. */
void mr_tier_queue_receive(struct mr_tier_queue *queue, uint64_t bytes, uint64_t now_ns);
/* Returns the next part (one Redis value to look up, load or store) for this thread; NULL: none
 * now. */
struct mr_tier_part *mr_tier_queue_take(struct mr_tier_queue *queue, uint32_t thread,
                                        uint64_t now_ns);
/* Call it when the Redis command of a part (one Redis value) has ended, or could not be sent. good:
 * the command succeeded (for LOOKUP: Redis has the value). True: the thread keeps the part and runs
 * the part's next command, part->step; false: the thread must not touch the part any more. */
bool mr_tier_queue_finish(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                          uint64_t now_ns);
/* Call it when a received value did not verify: the part's next command, CLEANUP, deletes the
 * value. */
void mr_tier_queue_damaged(struct mr_tier_queue *queue, struct mr_tier_part *part,
                           enum mr_verdict cause);
/* Call it when Redis refused a command because its memory is full, permission is missing, or it is
 * a read-only replica: stores pause. True: the caller logs the refusal; false: a refusal was logged
 * not long ago. */
bool mr_tier_queue_refused(struct mr_tier_queue *queue, bool read_only, uint64_t now_ns);
/* When a thread last learned that Redis is a read-only replica; 0: never. */
uint64_t mr_tier_queue_read_only_ns(struct mr_tier_queue *queue);
/* Whether the engine has cancelled the request to which the part (one Redis value) belongs. If so,
 * the thread stops using the part's payload and calls _release; it still calls _finish later. */
bool mr_tier_queue_is_cancelled(struct mr_tier_queue *queue, const struct mr_tier_part *part);
void mr_tier_queue_release(struct mr_tier_queue *queue, struct mr_tier_part *part, uint64_t now_ns);
/* Ends the parts (Redis values) that no thread has taken before their deadline. Returns the time of
 * the next call. */
uint64_t mr_tier_queue_expire(struct mr_tier_queue *queue, uint64_t now_ns);
/* _measured reports the result of a bandwidth measurement (worker/remote_cache/tier_measure.h);
 * _needs_measure returns whether a measurement should be made. */
void mr_tier_queue_measured(struct mr_tier_queue *queue, double bytes_per_second, uint64_t now_ns);
bool mr_tier_queue_needs_measure(struct mr_tier_queue *queue, uint64_t now_ns);
/* Whether an answer was posted since the last call of this function; if so, the caller wakes the
 * engine. */
bool mr_tier_queue_take_answered(struct mr_tier_queue *queue);

/* Asserts that all counters agree with the requests in the queue; takes time linear in their
 * number. */
void mr_tier_queue_check(struct mr_tier_queue *queue);

#endif
