/* fetch - the state of one request's lookup in the remote cache and of its load of KV from there.
 *
 * Prefill computes the prompt from the first token that has no KV (sequence->num_computed); loaded
 * KV lies after that token. State changes (the table that is checked is in fetch.c):
 *
 *     NEW ──> LOOKUP ──> LOOKUP_PIECES
 *      |        |            |
 *      +--------+------------+──> KNOWN <──> DECIDED
 *                                   ^           |
 *                                   |      +----+-------------+
 *          (every state below       |      v                  v
 *           may return to KNOWN) ---+    WAIT ────────────> COMPUTE
 *                                         |                 ^   ^
 *                                         +──> STEP ────────+   |
 *                                                |              |
 *                                                +──> WAIT_AGAIN+
 *
 *     WAIT, STEP, WAIT_AGAIN, COMPUTE ──> JOIN, LOGITS          JOIN, LOGITS ──> LOGITS_DONE
 *
 * A sequence that is preempted, cancelled or finished while it loads returns its request to KNOWN;
 * the remote cache keeps the slot of the abandoned load until the remote cache has answered.
 * Only the first choice of a request loads.
 *
 * Owner: engine thread. Memory: inside its job (batching/sequence/job.h). Errors: none; an illegal
 * change asserts. Units: tokens, nanoseconds of the monotonic clock. */
#ifndef MR_BATCHING_SEQUENCE_FETCH_H
#define MR_BATCHING_SEQUENCE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

enum mr_fetch_state {
    MR_FETCH_NEW, /* the request was not looked up in the remote cache yet */
    /* first query in flight: does Redis have the prompt's blocks, the smaller pieces of its
     * part-filled last block, and its logits? */
    MR_FETCH_LOOKUP,
    /* second query in flight: does Redis have parts of the first block that it lacks as a whole? */
    MR_FETCH_LOOKUP_PIECES,
    MR_FETCH_KNOWN,      /* the lookup is over, answered or not; no load is decided or in flight */
    MR_FETCH_DECIDED,    /* the values to load are decided; the sequence is not yet admitted */
    MR_FETCH_WAIT,       /* load in flight; prefill waits for the next value from Redis */
    MR_FETCH_STEP,       /* load in flight; Redis sends nothing, so prefill computes one block */
    MR_FETCH_WAIT_AGAIN, /* load in flight; Redis sends again, so prefill waits a last time */
    MR_FETCH_COMPUTE,    /* load in flight; prefill computes and does not wait for the load */
    /* the load has ended; loaded KV lies ahead of prefill, which has not reached it yet */
    MR_FETCH_JOIN,
    /* load in flight; the prompt's logits have arrived, nothing is left to compute */
    MR_FETCH_LOGITS,
    /* the load has ended; the prompt's logits have arrived, nothing is left to compute */
    MR_FETCH_LOGITS_DONE,
    MR_FETCH_STATE_COUNT
};

struct mr_fetch {
    enum mr_fetch_state state;
    uint64_t lookup_id, lookup_ns; /* id of the lookup in flight; when the lookup began */
    /* tokens of the prompt whose KV is in Redis, counted from the prompt's start */
    uint32_t found_tokens;
    /* Redis has the KV of the whole prompt and the logits of its last token */
    bool entry;
};

/* Changes the state. Asserts that the table of state changes in fetch.c allows this change. */
void mr_fetch_move(struct mr_fetch *fetch, enum mr_fetch_state state);

/* True while a query of the lookup is in flight. */
bool mr_fetch_is_looking_up(const struct mr_fetch *fetch);
/* True while a load is in flight: the final answer of the remote cache has not come. */
bool mr_fetch_is_loading(const struct mr_fetch *fetch);
/* True while prefill waits for the load. */
bool mr_fetch_is_waiting(const struct mr_fetch *fetch);
/* True when the request has a load, in flight or ended, whose KV prefill may still use. */
bool mr_fetch_has_load(const struct mr_fetch *fetch);

#endif
