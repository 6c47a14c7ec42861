/* tier_queue - what the engine asked of the tier and which part of it is whose: jobs, their parts,
 * the answers. The lanes take parts and finish them; the engine posts and polls.
 *
 * A job is one request of kvcache/tier.h; a part is one slice of one item, that is one value in
 * Redis and one command at a time. Look-ups, also the one before every store, so that nothing is
 * written twice, are for the first lane alone and never stand behind a value. Loads go before
 * stores; a load's last part goes first. No more is on its way than comes within MR_TIER_AHEAD_NS,
 * nor than MR_TIER_AHEAD_BYTES. What nobody has taken when no connection is left is over at once.
 * worker/redis/tier_queue.c is the engine's side, worker/redis/tier_queue_parts.c the lanes'.
 * Threads: any; one short lock. Memory: all of it in _create; a job is one piece of it, at most
 * MR_TIER_JOBS_MAX of them and store_bytes_max bytes of stores; it lives until its final answer was
 * polled and its last command is over. Errors: false when something is full. Clock: passed in. */
#ifndef MR_WORKER_REDIS_TIER_QUEUE_H
#define MR_WORKER_REDIS_TIER_QUEUE_H

#include "kvcache/block_frame.h"
#include "kvcache/redis/redis_op.h"
#include "kvcache/tier.h"
#include "worker/base/histogram.h"
#include "worker/base/wake.h"

#define MR_TIER_JOBS_MAX    1024u
#define MR_TIER_THREADS_MAX 17u
#define MR_TIER_KEY_BYTES   80u
#define MR_TIER_AHEAD_NS    ((uint64_t)20000000)
#define MR_TIER_AHEAD_BYTES ((uint64_t)16 << 20)
#define MR_TIER_AHEAD_FIRST (MR_TIER_AHEAD_BYTES / 4) /* to begin with */

struct mr_tier_queue;
struct mr_tier_job;

enum mr_tier_step { MR_TIER_STEP_LOOK, MR_TIER_STEP_GET, MR_TIER_STEP_SET, MR_TIER_STEP_TIDY };

/* Set up by the queue; whoever took it runs `step` on it and finishes it. */
struct mr_tier_part {
    struct mr_redis_op op; /* op.owner: the part */
    struct mr_tier_job *job;
    struct mr_tier_part *next; /* the owner's, while it has it */
    enum mr_tier_step step;
    struct mr_frame frame;          /* frame.length: of the payload */
    struct mr_frame_digest *digest; /* the lane's, of what comes; NULL: none */
    void *payload;
    uint32_t item, key_length, lane; /* lane: that has taken it */
    uint64_t deadline_ns;
    unsigned char header[MR_FRAME_BYTES];
    char key[MR_TIER_KEY_BYTES]; /* of the value in Redis */
    bool unanswered, damaged;    /* a LOOK without an answer; what TIDY deletes, not renews */
    bool there, released, taken; /* private to the queue */
};

struct mr_tier_queue_options {
    uint32_t lane_count;          /* the first for small jobs, the others for values */
    uint64_t look_timeout_ns;     /* of an ask */
    uint64_t transfer_timeout_ns; /* of a value, waiting included */
    uint64_t store_bytes_max;
    uint64_t write_budget;     /* bytes a second and tenant; 0: no limit */
    enum mr_frame_codec codec; /* of every payload */
    bool second_touch;         /* store what is asked to be stored for the second time */
    uint64_t present_ns;       /* how long a key that was there is believed to be there */
};

/* X(name, what it counts) */
#define MR_TIER_COUNTER_LIST(X)                                                                    \
    X(ASKS, "asks", "Look-ups")                                                                    \
    X(ASKS_LATE, "asks_late", "Look-ups that were not answered in time or at all")                 \
    X(ITEMS_ASKED, "items_asked", "Items looked up")                                               \
    X(ITEMS_FOUND, "items_found", "Items found there")                                             \
    X(LOADS, "loads", "Loads")                                                                     \
    X(ITEMS_LOADED, "items_loaded", "Items loaded and verified")                                   \
    X(BYTES_LOADED, "bytes_loaded", "Bytes of those")                                              \
    X(ITEMS_GONE, "items_gone", "Items found by a look-up and gone or late when loaded")           \
    X(ITEMS_SKIPPED, "items_skipped", "Items not loaded because they were computed by then")       \
    X(STORES, "stores", "Stores")                                                                  \
    X(ITEMS_STORED, "items_stored", "Items written")                                               \
    X(BYTES_STORED, "bytes_stored", "Bytes of those")                                              \
    X(ITEMS_KNOWN, "items_known", "Items not written because they are there")                      \
    X(ITEMS_FIRST_TOUCH, "items_first_touch", "Items not written when seen the first time")        \
    X(ITEMS_DROPPED, "items_dropped", "Items not written: queue, budget, server")                  \
    X(BYTES_DROPPED, "bytes_dropped", "Bytes of those")                                            \
    X(REFUSALS, "refusals", "Commands the server refused: no room, no rights, read-only")

enum mr_tier_counter {
#define X(name, text, help) MR_TIER_##name,
    MR_TIER_COUNTER_LIST(X)
#undef X
        MR_TIER_COUNTER_COUNT
};

struct mr_tier_queue_stats {
    uint64_t counters[MR_TIER_COUNTER_COUNT];
    uint64_t damaged[MR_VERDICT_COUNT]; /* values that did not verify, by cause */
    struct mr_histogram look_seconds;   /* of asks that were answered */
    struct mr_histogram load_seconds;   /* of loads that brought something */
    uint32_t jobs;
    uint64_t waiting_load_bytes, waiting_store_bytes;
};

enum mr_status mr_tier_queue_create(struct mr_tier_queue **out,
                                    const struct mr_tier_queue_options *options,
                                    struct mr_error *err);
/* All parts must have been finished. queue may be NULL. */
void mr_tier_queue_destroy(struct mr_tier_queue *queue);
/* Lane's doorbell, before the first post. */
void mr_tier_queue_attach(struct mr_tier_queue *queue, uint32_t lane, const struct mr_wake *wake);

/* ---- the engine's side: see kvcache/tier.h ---- */

bool mr_tier_queue_post(struct mr_tier_queue *queue, enum mr_tier_work work,
                        const struct mr_tier_request *request, uint64_t now_ns);
void mr_tier_queue_skip(struct mr_tier_queue *queue, uint64_t ticket, uint32_t index);
void mr_tier_queue_abandon(struct mr_tier_queue *queue, uint64_t ticket);
bool mr_tier_queue_poll(struct mr_tier_queue *queue, struct mr_tier_answer *answer);
struct mr_tier_rates mr_tier_queue_rates(struct mr_tier_queue *queue);
/* Silent: asks and loads are refused. Threads: any. */
void mr_tier_queue_set_silent(struct mr_tier_queue *queue, bool silent);
struct mr_tier_queue_stats mr_tier_queue_stats(struct mr_tier_queue *queue);

/* ---- the lanes' side ---- */

/* Whether this lane's server answers. The first lane's word is the tier's. */
void mr_tier_queue_set_ready(struct mr_tier_queue *queue, uint32_t lane, bool ready,
                             uint64_t now_ns);
void mr_tier_queue_heard(struct mr_tier_queue *queue, uint64_t bytes, uint64_t now_ns);
/* Next part for this lane, NULL for none. */
struct mr_tier_part *mr_tier_queue_take(struct mr_tier_queue *queue, uint32_t lane,
                                        uint64_t now_ns);
/* The part's command is over, or was never sent; good: the value is as wanted (a LOOK: it is
 * there). True: the queue wants another command of this part: run part->step again. */
bool mr_tier_queue_finish(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                          uint64_t now_ns);
/* A value did not verify: it is deleted next (MR_TIER_STEP_TIDY). */
void mr_tier_queue_damaged(struct mr_tier_queue *queue, struct mr_tier_part *part,
                           enum mr_verdict cause);
/* The server has no room, or refuses us: stores pause. True when that was not told lately. */
bool mr_tier_queue_refused(struct mr_tier_queue *queue, uint64_t now_ns);
/* Nobody waits for it any more; its payload must not be touched after _release. */
bool mr_tier_queue_is_unwanted(struct mr_tier_queue *queue, const struct mr_tier_part *part);
void mr_tier_queue_release(struct mr_tier_queue *queue, struct mr_tier_part *part, uint64_t now_ns);
/* Ends jobs that nobody took in time. Returns when to call again. */
uint64_t mr_tier_queue_expire(struct mr_tier_queue *queue, uint64_t now_ns);
/* A measurement made without a job; whether one is due. */
void mr_tier_queue_measured(struct mr_tier_queue *queue, double bytes_per_second, uint64_t now_ns);
bool mr_tier_queue_wants_measure(struct mr_tier_queue *queue, uint64_t now_ns);
/* True once when answers came since the last call: then the engine is to be woken. */
bool mr_tier_queue_has_news(struct mr_tier_queue *queue);

/* Asserts every sum; O(jobs). */
void mr_tier_queue_check(struct mr_tier_queue *queue);

#endif
