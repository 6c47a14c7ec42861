/* tier_jobs - the lookups, loads and stores (jobs) in the queue of the Redis cache. A job is cut
 * into parts, one for each value in Redis; this file decides what follows when a part is taken or
 * its Redis command ends: which items (KV blocks) are complete, which answers the engine gets, and
 * which parts come next.
 *
 * A job waits in one of three lists: lookups, loads or stores. The last part of a load is taken
 * first. A store starts with a lookup of its parts, and then writes the values that Redis lacks.
 *
 * Owner: the queue (worker/remote_cache/tier_queue.h), under its lock. Memory: all in _create; a
 * job is one piece of that memory, which lives until the engine has polled the final answer and the
 * last command has ended. Errors: _create MR_NOMEM. Clock: passed in. */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_JOBS_H
#define MR_WORKER_REMOTE_CACHE_TIER_JOBS_H

#include "kvcache/byte_budget.h"
#include "kvcache/key_memory.h"
#include "worker/base/wake.h"
#include "worker/remote_cache/tier_job.h"
#include "worker/remote_cache/tier_memory.h"
#include "worker/remote_cache/tier_pace.h"
#include "worker/remote_cache/tier_stats.h"

struct mr_tier_jobs {
    uint32_t thread_count;
    const struct mr_wake *wakes[MR_TIER_THREADS_MAX];
    struct mr_tier_job *all;
    uint32_t job_count;
    struct mr_tier_job_list lookups, loads, stores;
    struct mr_tier_note *first_answer, *last_answer;
    /* an answer to the engine was posted since the last mr_tier_queue_take_answered */
    bool answered;
    struct mr_tier_memory *memory;
    struct mr_key_memory *present; /* keys that Redis was seen to have */
    struct mr_byte_budget budget;  /* of the bytes stored for each tenant */
    struct mr_tier_pace pace;
    struct mr_tier_queue_stats stats;
};

/* present_ns: how long a key that was found in Redis is assumed to be there. There is no budget
 * until the caller sets one. */
enum mr_status mr_tier_jobs_create(struct mr_tier_jobs *jobs, uint32_t thread_count,
                                   uint64_t present_ns, struct mr_error *err);
/* Call it when no thread has a part (Redis value) in its hands; also after a failed _create. */
void mr_tier_jobs_destroy(struct mr_tier_jobs *jobs);

/* Wakes the connection threads first .. end - 1. */
void mr_tier_jobs_ring(struct mr_tier_jobs *jobs, uint32_t first, uint32_t end);
void mr_tier_jobs_count(struct mr_tier_jobs *jobs, enum mr_tier_counter counter, uint64_t amount);

/* Adds a job (lookup, load or store). It ends at once if none of its parts needs a Redis command;
 * otherwise it waits for a connection thread. */
void mr_tier_jobs_add(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns);
/* Ends those parts (Redis values) of the job's items below the index `below` that no thread has
 * taken. */
void mr_tier_jobs_drop(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint32_t below,
                       uint64_t now_ns);
/* Ends, in every job of the list, the parts (Redis values) that no thread has taken. */
void mr_tier_jobs_drop_list(struct mr_tier_jobs *jobs, struct mr_tier_job_list *list,
                            uint64_t now_ns);
/* Removes the oldest answer to the engine from the queue and returns it in *answer. False: there is
 * none. */
bool mr_tier_jobs_poll(struct mr_tier_jobs *jobs, struct mr_tier_answer *answer);

/* Returns the next part (Redis value) for this thread; NULL: no part waits, or too many bytes of
 * loads are in flight (worker/remote_cache/tier_pace.h). */
struct mr_tier_part *mr_tier_jobs_take(struct mr_tier_jobs *jobs, uint32_t thread, uint64_t now_ns);
/* Like mr_tier_queue_finish, but the caller holds the queue's lock. */
bool mr_tier_jobs_finish(struct mr_tier_jobs *jobs, struct mr_tier_part *part, bool good,
                         uint64_t now_ns);
/* Like mr_tier_queue_release, but the caller holds the queue's lock. */
void mr_tier_jobs_release(struct mr_tier_jobs *jobs, struct mr_tier_part *part, uint64_t now_ns);

/* Asserts that all counters agree with the jobs; takes time linear in the number of jobs. */
void mr_tier_jobs_check(const struct mr_tier_jobs *jobs);

#endif
