/* sequence - one choice of a request as the engine sees it: tokens known, tokens computed.
 *
 * Chunked prefill, prefix hits, preemption and resume are all the same: num_computed catches up
 * with num_tokens. A sequence whose gap is one token is decoding; a wider gap is prefill.
 *
 * States and who may follow whom (the one table is in sequence.c):
 *     WAITING    no blocks yet                     -> RUNNING, FINISHED
 *     RUNNING    has a block table                 -> PREEMPTED, FINISHED
 *     PREEMPTED  gave its blocks back              -> RUNNING, FINISHED
 *     FINISHED   reported or about to be           (end)
 *
 * Owner:  engine thread (made by the submitting one). Memory: inside its job
 * (batching/sequence/job.h). Errors: none; misuse asserts. Units: tokens. */
#ifndef MR_BATCHING_SEQUENCE_SEQUENCE_H
#define MR_BATCHING_SEQUENCE_SEQUENCE_H

#include "kvcache/kv_cache.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_job;
struct mr_completion;
struct mr_load_slot;

enum mr_sequence_state {
    MR_SEQUENCE_WAITING,
    MR_SEQUENCE_RUNNING,
    MR_SEQUENCE_PREEMPTED,
    MR_SEQUENCE_FINISHED,
    MR_SEQUENCE_STATE_COUNT
};

struct mr_sequence {
    struct mr_job *job;
    struct mr_completion *completion; /* owned by the job */
    uint32_t *tokens;                 /* [capacity]: prompt, then output */
    uint32_t capacity;                /* prompt and the most that may be generated */
    uint32_t prompt_tokens, num_tokens, num_computed;
    uint32_t computed_before; /* most that was ever computed: below it is recomputation */
    uint32_t choice;
    enum mr_sequence_state state;
    struct mr_block_table *table; /* while RUNNING */
    struct mr_kv_match match;     /* copy order of this step, copy_tokens 0: none */
    bool halts;                   /* prefill halts at held_at while a load is under way */
    uint32_t held_at;
    uint32_t stored_tokens;    /* [0, stored_tokens) need not be stored in the tier */
    bool entry_due;            /* the complete prompt's logits are to be stored as well */
    struct mr_load_slot *load; /* of blocks loaded from the tier, or NULL */
    const float *logits;       /* nothing is left to compute: draw from these */
    uint32_t skipped;          /* times something behind it was let in before it */
    uint32_t preemptions, tokens_at_preemption;
    uint64_t last_token_ns;
};

/* Asserts that the table allows it. */
void mr_sequence_move(struct mr_sequence *sequence, enum mr_sequence_state state);

/* Tokens not computed yet. */
static inline uint32_t mr_sequence_pending(const struct mr_sequence *sequence)
{
    return sequence->num_tokens - sequence->num_computed;
}

static inline bool mr_sequence_is_decoding(const struct mr_sequence *sequence)
{
    return mr_sequence_pending(sequence) == 1 && sequence->num_computed >= sequence->prompt_tokens;
}

/* O(1): prompt tokens are not yet computed. False with only generated tokens pending, and for an
 * empty prompt. */
static inline bool mr_sequence_needs_prefill(const struct mr_sequence *sequence)
{
    return sequence->num_computed < sequence->prompt_tokens;
}

static inline uint32_t mr_sequence_generated(const struct mr_sequence *sequence)
{
    return sequence->num_tokens - sequence->prompt_tokens;
}

/* It waits for blocks that are being loaded. */
static inline bool mr_sequence_is_held(const struct mr_sequence *sequence)
{
    return sequence->halts && sequence->num_computed >= sequence->held_at;
}

/* A sampled token. There must be room. */
void mr_sequence_append(struct mr_sequence *sequence, uint32_t token_id);
/* count pending tokens have their KV; returns how many of them had it before a preemption. */
uint32_t mr_sequence_advance(struct mr_sequence *sequence, uint32_t count);
/* Tokens [num_computed, end) have their KV without having been computed here. */
void mr_sequence_jump(struct mr_sequence *sequence, uint32_t end);
void mr_sequence_check(const struct mr_sequence *sequence);

#endif
