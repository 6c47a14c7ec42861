/* sequence - one choice of a request: its tokens, and how many of them have KV.
 *
 * Chunked prefill, prefix hits, preemption and resume are the same to the engine: num_computed
 * catches up with num_tokens. A sequence that has computed its prompt and lacks one token is
 * decoding; any other with pending tokens is in prefill.
 *
 * States and their legal moves (the one table is in sequence.c):
 *     WAITING    no blocks yet                     -> RUNNING, FINISHED
 *     RUNNING    has a block table                 -> PREEMPTED, FINISHED
 *     PREEMPTED  released its blocks               -> RUNNING, FINISHED
 *     FINISHED   reported or about to be           (end)
 *
 * Owner: engine thread; the submitting thread makes it. Memory: inside its job
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
    uint32_t capacity;                /* prompt and the most tokens that may be generated */
    uint32_t prompt_tokens, num_tokens, num_computed;
    uint32_t computed_before; /* most tokens ever computed: computing one below is recomputation */
    uint32_t choice;
    enum mr_sequence_state state;
    struct mr_block_table *table; /* while RUNNING */
    struct mr_kv_match match;     /* copy order of this step; copy_tokens 0: none */
    bool halts;                   /* prefill stops at held_at, where loaded blocks begin */
    uint32_t held_at;
    uint32_t stored_tokens;    /* [0, stored_tokens) are in the tier or cannot be stored */
    bool entry_due;            /* the complete prompt's entry is to be stored in the tier */
    struct mr_load_slot *load; /* of blocks loaded from the tier, or NULL */
    const float *logits;       /* loaded: the next token is sampled from them without a forward */
    uint32_t skipped;          /* rounds in which a later candidate was admitted before it */
    uint32_t preemptions, tokens_at_preemption;
    uint64_t last_token_ns;
};

/* Asserts that the table allows the move. */
void mr_sequence_move(struct mr_sequence *sequence, enum mr_sequence_state state);

/* Tokens not computed yet. */
static inline uint32_t mr_sequence_pending(const struct mr_sequence *sequence)
{
    return sequence->num_tokens - sequence->num_computed;
}

/* O(1): prompt tokens are pending. False when only generated tokens are, and for an empty prompt.
 */
static inline bool mr_sequence_needs_prefill(const struct mr_sequence *sequence)
{
    return sequence->num_computed < sequence->prompt_tokens;
}

static inline bool mr_sequence_is_decoding(const struct mr_sequence *sequence)
{
    return mr_sequence_pending(sequence) == 1 && !mr_sequence_needs_prefill(sequence);
}

static inline uint32_t mr_sequence_generated(const struct mr_sequence *sequence)
{
    return sequence->num_tokens - sequence->prompt_tokens;
}

/* The sequence waits for blocks that are being loaded. */
static inline bool mr_sequence_is_held(const struct mr_sequence *sequence)
{
    return sequence->halts && sequence->num_computed >= sequence->held_at;
}

/* Appends a sampled token. num_tokens must be below capacity. */
void mr_sequence_append(struct mr_sequence *sequence, uint32_t token_id);
/* count pending tokens were computed; returns how many of them were computed before a preemption.
 */
uint32_t mr_sequence_advance(struct mr_sequence *sequence, uint32_t count);
/* Tokens [num_computed, end) have their KV from a load. */
void mr_sequence_jump(struct mr_sequence *sequence, uint32_t end);
void mr_sequence_check(const struct mr_sequence *sequence);

#endif
