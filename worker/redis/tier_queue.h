/* tier_queue - the queue between the engine and the connection threads: the engine posts requests
 * of kvcache/tier.h and polls for answers; the threads take their parts (worker/redis/tier_job.h),
 * run the commands and finish them.
 *
 * Thread 0 runs lookups only, so that a lookup never waits behind a value; also the lookup before
 * every store, which prevents writing a value twice. The other threads run loads and stores, loads
 * first, with at most so many bytes in flight as worker/redis/tier_pace.h allows. When the last
 * connection is lost, parts that no thread has taken are ended at once.
 *
 * Threads: any; one short lock. Memory: all in _create; at most MR_TIER_JOBS_MAX jobs, and
 * store_bytes_max bytes of stores. Errors: false when a limit is reached. Clock: passed in. */
#ifndef MR_WORKER_REDIS_TIER_QUEUE_H
#define MR_WORKER_REDIS_TIER_QUEUE_H

#include "worker/base/wake.h"
#include "worker/redis/tier_job.h"
#include "worker/redis/tier_pace.h"
#include "worker/redis/tier_stats.h"

#define MR_TIER_JOBS_MAX 1024u

struct mr_tier_queue;

struct mr_tier_queue_options {
    uint32_t thread_count; /* 2 .. MR_TIER_THREADS_MAX; thread 0 runs lookups */
    uint64_t lookup_timeout_ns;
    uint64_t transfer_timeout_ns; /* of a load or store, waiting included */
    uint64_t store_bytes_max;
    uint64_t write_budget;     /* bytes a second for each tenant; 0: no limit */
    enum mr_frame_codec codec; /* of every payload */
    bool second_touch;         /* store an item only when it is offered for the second time */
    uint64_t present_ns;       /* how long a key found in Redis is assumed to be there */
};

enum mr_status mr_tier_queue_create(struct mr_tier_queue **out,
                                    const struct mr_tier_queue_options *options,
                                    struct mr_error *err);
/* Every part has been finished. queue may be NULL. */
void mr_tier_queue_destroy(struct mr_tier_queue *queue);
/* Sets the doorbell of a thread; before the first post. */
void mr_tier_queue_attach(struct mr_tier_queue *queue, uint32_t thread, const struct mr_wake *wake);

/* ---- the engine's side: see kvcache/tier.h ---- */

bool mr_tier_queue_post(struct mr_tier_queue *queue, enum mr_tier_work work,
                        const struct mr_tier_request *request, uint64_t now_ns);
void mr_tier_queue_skip(struct mr_tier_queue *queue, uint64_t ticket, uint32_t index);
void mr_tier_queue_abandon(struct mr_tier_queue *queue, uint64_t ticket);
bool mr_tier_queue_poll(struct mr_tier_queue *queue, struct mr_tier_answer *answer);
struct mr_tier_rates mr_tier_queue_rates(struct mr_tier_queue *queue);
/* While silent, lookups and loads are refused. Threads: any. */
void mr_tier_queue_set_silent(struct mr_tier_queue *queue, bool silent);
struct mr_tier_queue_stats mr_tier_queue_stats(struct mr_tier_queue *queue);

/* ---- the connection threads' side ---- */

/* Whether this thread's connection is ready. */
void mr_tier_queue_set_ready(struct mr_tier_queue *queue, uint32_t thread, bool ready,
                             uint64_t now_ns);
/* Bytes of values were received. */
void mr_tier_queue_receive(struct mr_tier_queue *queue, uint64_t bytes, uint64_t now_ns);
/* Next part for this thread; NULL: none. */
struct mr_tier_part *mr_tier_queue_take(struct mr_tier_queue *queue, uint32_t thread,
                                        uint64_t now_ns);
/* The part's command has ended, or was never sent. good: it succeeded (LOOKUP: the value is
 * present). True: the thread keeps the part and runs part->step, which has changed; false: the
 * thread no longer touches the part. */
bool mr_tier_queue_finish(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                          uint64_t now_ns);
/* A value did not verify: CLEANUP deletes it. */
void mr_tier_queue_damaged(struct mr_tier_queue *queue, struct mr_tier_part *part,
                           enum mr_verdict cause);
/* Redis has no memory left or denies permission: stores pause. True: worth a log line, because none
 * was due for this lately. */
bool mr_tier_queue_refused(struct mr_tier_queue *queue, uint64_t now_ns);
/* Whether the part's job was cancelled. Then the thread stops using its payload, and calls
 * _release; _finish still follows. */
bool mr_tier_queue_is_cancelled(struct mr_tier_queue *queue, const struct mr_tier_part *part);
void mr_tier_queue_release(struct mr_tier_queue *queue, struct mr_tier_part *part, uint64_t now_ns);
/* Ends parts whose deadline has passed and that no thread has taken. Returns when to call again. */
uint64_t mr_tier_queue_expire(struct mr_tier_queue *queue, uint64_t now_ns);
/* Result of a bandwidth measurement (worker/redis/tier_measure.h), and whether one is due. */
void mr_tier_queue_measured(struct mr_tier_queue *queue, double bytes_per_second, uint64_t now_ns);
bool mr_tier_queue_needs_measure(struct mr_tier_queue *queue, uint64_t now_ns);
/* Whether an answer was posted since the last call: then the engine must be woken. */
bool mr_tier_queue_take_answered(struct mr_tier_queue *queue);

/* Asserts every sum; O(jobs). */
void mr_tier_queue_check(struct mr_tier_queue *queue);

#endif
