/* tier_jobs - the jobs of the tier's queue and what follows when one of their parts is taken or
 * finished: which items are complete, which answers are posted, which parts come next.
 *
 * A job waits in the list of its next step: lookups, loads or stores. The last part of a load is
 * taken first. A store starts with a lookup of its parts, and then writes those that are missing.
 *
 * Owner:  the queue (worker/redis/tier_queue.h), under its lock. Memory: all in _create; a job is
 * one piece of it, and lives until its final answer was polled and its last command has ended.
 * Errors: _create MR_NOMEM. Clock: passed in. */
#ifndef MR_WORKER_REDIS_TIER_JOBS_H
#define MR_WORKER_REDIS_TIER_JOBS_H

#include "kvcache/key_memory.h"
#include "worker/base/wake.h"
#include "worker/redis/tier_job.h"
#include "worker/redis/tier_memory.h"
#include "worker/redis/tier_pace.h"
#include "worker/redis/tier_stats.h"

struct mr_tier_jobs {
    uint32_t thread_count;
    const struct mr_wake *wakes[MR_TIER_THREADS_MAX];
    struct mr_tier_job *all;
    uint32_t job_count;
    struct mr_tier_job_list lookups, loads, stores;
    struct mr_tier_note *first_answer, *last_answer;
    bool answered; /* an answer was posted since the last mr_tier_queue_take_answered */
    struct mr_tier_memory *memory;
    struct mr_key_memory *present; /* keys that Redis has */
    struct mr_tier_pace pace;
    struct mr_tier_queue_stats stats;
};

/* present_ns: how long a key found in Redis is assumed to be there. */
enum mr_status mr_tier_jobs_create(struct mr_tier_jobs *jobs, uint32_t thread_count,
                                   uint64_t present_ns, struct mr_error *err);
/* No thread has a part. Also after a failed _create. */
void mr_tier_jobs_destroy(struct mr_tier_jobs *jobs);

/* Rings the doorbells of threads [first, end). */
void mr_tier_jobs_ring(struct mr_tier_jobs *jobs, uint32_t first, uint32_t end);
void mr_tier_jobs_count(struct mr_tier_jobs *jobs, enum mr_tier_counter counter, uint64_t amount);

/* Adds a job: it is finished at once if none of its parts is open, else it waits for a thread. */
void mr_tier_jobs_add(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns);
/* Ends the parts of items below an index that no thread has taken. */
void mr_tier_jobs_drop(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint32_t below,
                       uint64_t now_ns);
/* Ends the parts that no thread has taken of every job in the list. */
void mr_tier_jobs_drop_list(struct mr_tier_jobs *jobs, struct mr_tier_job_list *list,
                            uint64_t now_ns);
/* Removes the oldest answer. False: there is none. */
bool mr_tier_jobs_poll(struct mr_tier_jobs *jobs, struct mr_tier_answer *answer);

/* Next part for this thread; NULL: none, or the pace allows no more. */
struct mr_tier_part *mr_tier_jobs_take(struct mr_tier_jobs *jobs, uint32_t thread, uint64_t now_ns);
/* As mr_tier_queue_finish. */
bool mr_tier_jobs_finish(struct mr_tier_jobs *jobs, struct mr_tier_part *part, bool good,
                         uint64_t now_ns);
/* As mr_tier_queue_release. */
void mr_tier_jobs_release(struct mr_tier_jobs *jobs, struct mr_tier_part *part, uint64_t now_ns);

/* Asserts every sum; O(jobs). */
void mr_tier_jobs_check(const struct mr_tier_jobs *jobs);

#endif
