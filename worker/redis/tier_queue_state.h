/* tier_queue_state - what the parts of the tier's queue share: worker/redis/tier_queue.c (the
 * engine's side) and worker/redis/tier_queue_parts.c (jobs, parts, the lanes' side). Nobody else
 * includes it. Under the queue's mutex. */
#ifndef MR_WORKER_REDIS_TIER_QUEUE_STATE_H
#define MR_WORKER_REDIS_TIER_QUEUE_STATE_H

#include "kvcache/byte_budget.h"
#include "kvcache/key_memory.h"
#include "worker/redis/tier_memory.h"
#include "worker/redis/tier_queue.h"

#include <pthread.h>

struct mr_tier_slot {
    unsigned char key[MR_HASH_BYTES];
    size_t length;
    uint32_t left; /* slices not over */
    bool bad, known,
        there; /* bad: a slice failed; known: not to be written; there: all slices are */
};

struct mr_tier_note {
    struct mr_tier_note *next;
    struct mr_tier_job *job;
    struct mr_tier_answer answer;
};

struct mr_tier_job {
    struct mr_tier_job *next_all, *next; /* of all jobs; of the list it waits in */
    enum mr_tier_work work;
    uint64_t ticket, posted_ns, begun_ns, deadline_ns, bytes_done;
    struct mr_tier_slot *items;
    struct mr_tier_part *parts;
    struct mr_tier_note *answers;                   /* [item_count + 1], the last the final one */
    uint32_t item_count, part_count, untaken, open; /* open: parts that are not over */
    uint32_t refs; /* parts out with a lane, and one until the final answer is polled */
    uint32_t skip_below;
    uint64_t bytes; /* of a store, in store_bytes */
    bool abandoned, final, late;
};

struct mr_tier_job_list {
    struct mr_tier_job *first, *last;
};

struct mr_tier_queue {
    struct mr_tier_queue_options options;
    pthread_mutex_t mutex;
    struct mr_tier_job *all;
    uint32_t job_count;
    struct mr_tier_job_list looks, loads, stores;
    struct mr_tier_note *answer_first, *answer_last;
    const struct mr_wake *wakes[MR_TIER_THREADS_MAX];
    bool ready[MR_TIER_THREADS_MAX], silent;
    uint64_t coming[MR_TIER_THREADS_MAX],
        coming_bytes;    /* of values being loaded, by lane and in all */
    uint64_t most_bytes; /* that may be coming: grows with what has come */
    uint64_t heard_ns;   /* as in kvcache/tier.h */
    uint64_t paused_until_ns, told_refusal_ns, measured_ns, asked_ns, round_trip_ns;
    double bytes_per_second;
    struct mr_tier_memory *memory; /* of the jobs */
    struct mr_key_memory *present, *touched;
    struct mr_byte_budget budget;
    struct mr_tier_queue_stats stats;
    bool news;
};

/* worker/redis/tier_queue_parts.c, all under the mutex */
bool mr_tier_queue_has_lane(const struct mr_tier_queue *queue); /* one for values is ready */
void mr_tier_queue_ring(struct mr_tier_queue *queue, uint32_t first, uint32_t end);
void mr_tier_queue_count(struct mr_tier_queue *queue, enum mr_tier_counter counter,
                         uint64_t amount);
/* Into the list its first part's step belongs to. */
void mr_tier_queue_enlist(struct mr_tier_queue *queue, struct mr_tier_job *job);
/* Posts the final answer; every part is over. */
void mr_tier_queue_finish_job(struct mr_tier_queue *queue, struct mr_tier_job *job,
                              uint64_t now_ns);
/* Ends the parts no lane has, of items below an index. The last one may finish the job, which stays
 * until it is polled. */
void mr_tier_queue_drop(struct mr_tier_queue *queue, struct mr_tier_job *job, uint32_t below,
                        uint64_t now_ns);
void mr_tier_queue_unref(struct mr_tier_queue *queue, struct mr_tier_job *job);
/* Takes it out of the list of all. */
void mr_tier_job_free(struct mr_tier_queue *queue, struct mr_tier_job *job);

#endif
