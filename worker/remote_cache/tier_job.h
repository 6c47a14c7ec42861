/* tier_job - one request of the engine (lookup, load or store) to the Redis cache (kvcache/tier.h),
 * cut into parts. An item of the request has one key, mostly a KV block; large items are cut into
 * slices. A part is one slice of one item: one value in Redis, with one Redis command at a time.
 *
 * Owner: the queue (worker/remote_cache/tier_queue.h), under its lock; only a part's op, header and
 * payload belong to the connection thread that has taken the part. Memory: one piece of the queue's
 * memory. Errors: none. */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_JOB_H
#define MR_WORKER_REMOTE_CACHE_TIER_JOB_H

#include "kvcache/block_frame.h"
#include "kvcache/remote/redis_op.h"
#include "kvcache/tier.h"

#define MR_TIER_KEY_BYTES 80u

/* The Redis command that a part (one value in Redis) runs next. LOOKUP: STRLEN; CLEANUP follows a
 * GET: EXPIRE, or DEL of a damaged value. */
enum mr_tier_step { MR_TIER_STEP_LOOKUP, MR_TIER_STEP_GET, MR_TIER_STEP_SET, MR_TIER_STEP_CLEANUP };

struct mr_tier_job;

/* One slice of one item: one value in Redis. A connection thread takes the part, runs the Redis
 * command `step` and reports its end to the queue. */
struct mr_tier_part {
    struct mr_redis_op op; /* op.owner: this struct */
    struct mr_tier_job *job;
    struct mr_tier_part *next; /* for use by the connection thread that has taken the part */
    enum mr_tier_step step;
    struct mr_frame frame; /* frame.length: bytes of the payload */
    /* digest of the value while it is received; owned by the connection thread; NULL: none */
    struct mr_frame_digest *digest;
    void *payload;
    /* thread: index of the connection thread that has taken the part */
    uint32_t item, key_length, thread;
    uint64_t deadline_ns;
    unsigned char header[MR_FRAME_BYTES];
    char key[MR_TIER_KEY_BYTES]; /* name of the value in Redis */
    bool unanswered;             /* Redis did not answer the LOOKUP */
    bool damaged;                /* the received value did not verify: CLEANUP deletes it */
    /* the engine has its memory back although the command has not ended; set by the queue at the
     * call of the connection thread that has taken the part */
    bool released;
    bool present, taken; /* used by the queue only */
};

struct mr_tier_entry { /* one item of the request: mostly a KV block */
    unsigned char key[MR_HASH_BYTES];
    size_t length;
    uint32_t open; /* slices of the item whose commands have not ended */
    bool failed;   /* loading or storing a slice failed */
    /* only in a store: not to be written, because Redis has the item, it is offered for the first
     * time, or a limit is reached */
    bool not_written;
    size_t write_bytes; /* only in a store: bytes of the slices that its lookup did not find */
    bool present;       /* Redis has every slice of the item */
};

struct mr_tier_note { /* an answer to the engine that the engine has not polled yet */
    struct mr_tier_note *next;
    struct mr_tier_job *job;
    struct mr_tier_answer answer;
};

struct mr_tier_job {
    /* next_all: in the list of all jobs; next: in the list of waiting jobs */
    struct mr_tier_job *next_all, *next;
    enum mr_tier_work work;
    uint64_t ticket, posted_ns, begun_ns, deadline_ns, done_bytes;
    struct mr_tier_entry *items;  /* [item_count] */
    struct mr_tier_part *parts;   /* [part_count] */
    struct mr_tier_note *answers; /* [item_count + 1]; the last one is the final answer */
    uint32_t item_count, part_count;
    uint32_t untaken; /* parts (Redis values) that no connection thread has taken */
    uint32_t open;    /* parts (Redis values) whose commands have not ended */
    /* parts (Redis values) taken by connection threads, plus one until the engine has polled the
     * final answer */
    uint32_t refs;
    uint32_t skip_below;
    /* total bytes of all items; in a store only of those that wait to be written or looked up */
    uint64_t bytes;
    uint64_t tenant; /* only in a store: the tenant whose budget pays (kvcache/byte_budget.h) */
    bool abandoned, final, late;
};

struct mr_tier_job_options {
    enum mr_tier_work work;
    const struct mr_tier_request *request;
    uint64_t now_ns, deadline_ns;
    enum mr_frame_codec codec;
};

/* Bytes of memory that a job for this request needs; 0: the request would have too many parts
 * (Redis values). */
size_t mr_tier_job_bytes(const struct mr_tier_request *request);
/* Makes a job in zeroed memory of mr_tier_job_bytes bytes. No thread has taken any part (Redis
 * value) of the new job; its refs is 1. */
struct mr_tier_job *mr_tier_job_init(void *memory, const struct mr_tier_job_options *options);
/* Number of items that Redis has: for a lookup, counted from the first item up to the first absent
 * one; for a load or store, all. */
uint32_t mr_tier_job_present(const struct mr_tier_job *job);

/* First-in-first-out list of jobs (lookups, loads, stores); a zeroed struct is an empty list. */
struct mr_tier_job_list {
    struct mr_tier_job *first, *last;
};
void mr_tier_job_list_push(struct mr_tier_job_list *list, struct mr_tier_job *job);
/* Removes the job from the list; no effect when the job is not in the list. */
void mr_tier_job_list_remove(struct mr_tier_job_list *list, struct mr_tier_job *job);

#endif
