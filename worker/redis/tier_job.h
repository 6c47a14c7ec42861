/* tier_job - one request of the engine to the tier (kvcache/tier.h), cut into parts. A part is one
 * slice of one item: one value in Redis, and one command at a time.
 *
 * Owner: the queue, under its lock, but for a part that a connection thread has taken (its op,
 * header and payload). Memory: one piece of the queue's memory. Errors: none. */
#ifndef MR_WORKER_REDIS_TIER_JOB_H
#define MR_WORKER_REDIS_TIER_JOB_H

#include "kvcache/block_frame.h"
#include "kvcache/redis/redis_op.h"
#include "kvcache/tier.h"

#define MR_TIER_KEY_BYTES 80u

/* The command of a part. LOOKUP: STRLEN; CLEANUP, after a GET: EXPIRE, or DEL of a damaged value.
 */
enum mr_tier_step { MR_TIER_STEP_LOOKUP, MR_TIER_STEP_GET, MR_TIER_STEP_SET, MR_TIER_STEP_CLEANUP };

struct mr_tier_job;

/* The thread that takes a part runs `step` on it and finishes it. */
struct mr_tier_part {
    struct mr_redis_op op; /* op.owner: the part */
    struct mr_tier_job *job;
    struct mr_tier_part *next; /* for use by the thread that has taken it */
    enum mr_tier_step step;
    struct mr_frame frame;          /* frame.length: of the payload */
    struct mr_frame_digest *digest; /* of a value being received, the thread's; NULL: none */
    void *payload;
    uint32_t item, key_length, thread; /* thread: index of the one that has taken it */
    uint64_t deadline_ns;
    unsigned char header[MR_FRAME_BYTES];
    char key[MR_TIER_KEY_BYTES];   /* of the value in Redis */
    bool unanswered;               /* a LOOKUP without an answer */
    bool damaged;                  /* the value did not verify: CLEANUP deletes it */
    bool present, released, taken; /* private to the queue */
};

struct mr_tier_entry { /* one item */
    unsigned char key[MR_HASH_BYTES];
    size_t length;
    uint32_t open;    /* slices not finished */
    bool failed;      /* a slice failed */
    bool not_written; /* of a store: known to be present, or seen for the first time */
    bool present;     /* every slice is */
};

struct mr_tier_note { /* an answer that waits to be polled */
    struct mr_tier_note *next;
    struct mr_tier_job *job;
    struct mr_tier_answer answer;
};

struct mr_tier_job {
    struct mr_tier_job *next_all, *next; /* in the list of all jobs; in the list it waits in */
    enum mr_tier_work work;
    uint64_t ticket, posted_ns, begun_ns, deadline_ns, done_bytes;
    struct mr_tier_entry *items;  /* [item_count] */
    struct mr_tier_part *parts;   /* [part_count] */
    struct mr_tier_note *answers; /* [item_count + 1], the last is the final one */
    uint32_t item_count, part_count;
    uint32_t untaken; /* parts that no thread has taken */
    uint32_t open;    /* parts not finished */
    uint32_t refs;    /* parts that threads have, and one until the final answer is polled */
    uint32_t skip_below;
    uint64_t bytes; /* of all items; of a store, of those to be written */
    bool abandoned, final, late;
};

struct mr_tier_job_options {
    enum mr_tier_work work;
    const struct mr_tier_request *request;
    uint64_t now_ns, deadline_ns;
    enum mr_frame_codec codec;
};

/* Bytes of memory that a job for this request needs; 0: it has too many parts. */
size_t mr_tier_job_bytes(const struct mr_tier_request *request);
/* Makes a job in zeroed memory of mr_tier_job_bytes. Every part is untaken; refs is 1. */
struct mr_tier_job *mr_tier_job_init(void *memory, const struct mr_tier_job_options *options);
/* Items present: of a lookup, from the first up to the first gap; else in total. */
uint32_t mr_tier_job_present(const struct mr_tier_job *job);

/* FIFO of jobs; zeroed is empty. */
struct mr_tier_job_list {
    struct mr_tier_job *first, *last;
};
void mr_tier_job_list_push(struct mr_tier_job_list *list, struct mr_tier_job *job);
/* No effect when the job is not in the list. */
void mr_tier_job_list_remove(struct mr_tier_job_list *list, struct mr_tier_job *job);

#endif
