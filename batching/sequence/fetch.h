/* fetch - how far the shared cache is with one request: its lookup in the tier and its load.
 *
 * Prefill computes the prompt from the first token that has no KV (sequence->num_computed); items
 * of a load lie ahead of that token. Moves (the one table is in fetch.c):
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
 * the slot of the abandoned load belongs to the shared cache until the tier has answered.
 * Only the first choice of a request loads.
 *
 * Owner: engine thread. Memory: inside its job (batching/sequence/job.h). Errors: none; an illegal
 * move asserts. Units: tokens, ns monotonic. */
#ifndef MR_BATCHING_SEQUENCE_FETCH_H
#define MR_BATCHING_SEQUENCE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

enum mr_fetch_state {
    MR_FETCH_NEW,           /* no lookup yet */
    MR_FETCH_LOOKUP,        /* first query in flight: for blocks, pieces of the last one, entry */
    MR_FETCH_LOOKUP_PIECES, /* second query in flight: pieces of the block where the chain broke */
    MR_FETCH_KNOWN,         /* lookup is over, answered or not; no load */
    MR_FETCH_DECIDED,       /* the load gate has decided; the sequence is not yet admitted */
    MR_FETCH_WAIT,          /* loading; prefill waits for the next item */
    MR_FETCH_STEP,          /* loading; the tier went silent, prefill computes one block */
    MR_FETCH_WAIT_AGAIN,    /* loading; the tier was heard again, prefill waits a last time */
    MR_FETCH_COMPUTE,       /* loading; prefill computes and does not wait */
    MR_FETCH_JOIN,          /* load has ended; items that arrived lie ahead of prefill */
    MR_FETCH_LOGITS, /* loading; the prompt's logits have arrived, nothing is left to compute */
    MR_FETCH_LOGITS_DONE, /* the same, and the load has ended */
    MR_FETCH_STATE_COUNT
};

struct mr_fetch {
    enum mr_fetch_state state;
    uint64_t ticket, lookup_ns; /* of the lookup */
    uint32_t found_tokens;      /* of the prompt: full blocks, then pieces of the next block */
    bool entry;                 /* the tier has all blocks and pieces, and the prompt's entry */
};

/* Asserts that the table allows the move. */
void mr_fetch_move(struct mr_fetch *fetch, enum mr_fetch_state state);

/* A query of the lookup is in flight. */
bool mr_fetch_is_looking_up(const struct mr_fetch *fetch);
/* A load is in flight: the tier's final answer has not come. */
bool mr_fetch_is_loading(const struct mr_fetch *fetch);
/* Prefill waits for the load. */
bool mr_fetch_is_waiting(const struct mr_fetch *fetch);
/* A load belongs to the request, in flight or ended. */
bool mr_fetch_has_load(const struct mr_fetch *fetch);

#endif
