/* sequence - one choice of a request: its tokens, and how many of them have KV.
 *
 * Chunked prefill, prefix hits, preemption and resume are the same to the engine: num_computed
 * (tokens with KV) catches up with num_tokens. A sequence that has computed its prompt and lacks
 * the KV of one token is decoding; any other sequence that lacks KV of tokens is in prefill.
 *
 * States and their legal changes (the table that is checked is in sequence.c):
 *     WAITING    has no blocks yet                 -> RUNNING, FINISHED
 *     RUNNING    has a block table                 -> PREEMPTED, FINISHED
 *     PREEMPTED  has released its blocks           -> RUNNING, FINISHED
 *     FINISHED   has been reported or is about to be reported
 *
 * Owner: engine thread; the submitting thread creates it. Memory: inside its job
 * (batching/sequence/job.h). Errors: none; misuse asserts. Units: tokens. */
#ifndef MR_BATCHING_SEQUENCE_SEQUENCE_H
#define MR_BATCHING_SEQUENCE_SEQUENCE_H

#include "kvcache/kv_cache.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_TOKEN_UNKNOWN UINT32_MAX
#define MR_DRAFTS_MAX    32u /* most drafts of a sequence in one step */

struct mr_job;
struct mr_completion;
struct mr_load_slot;
struct mr_prompt_lookup;
struct mr_scores;
struct mr_embedding;

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
    uint32_t *tokens;                 /* [capacity] token ids: prompt, then output */
    uint32_t capacity;                /* prompt tokens plus the most tokens that may be generated */
    uint32_t prompt_tokens, num_tokens, num_computed;
    /* Steps in flight sample the last `unknown` of num_tokens: their ids are MR_TOKEN_UNKNOWN.
     * fed_row: the sampling row of the last one. */
    uint32_t unknown, fed_row;
    /* steps in flight that compute tokens of this sequence; tokens whose KV collected steps, loads
     * and cached blocks have; num_computed counts the KV of steps in flight too */
    uint32_t in_flight, num_settled;
    /* most tokens that ever had KV: computing a token below is recomputation */
    uint32_t computed_before;
    uint32_t choice;
    enum mr_sequence_state state;
    struct mr_block_table *table; /* NULL unless RUNNING */
    /* result of the prefix match; copy_tokens > 0: KV of this many tokens must be copied before the
     * step */
    struct mr_kv_match match;
    uint32_t junction; /* tokens of cached blocks without a snapshot where the last match ended */
    bool halts;        /* prefill stops at token held_at, where loaded blocks begin */
    uint32_t held_at;
    /* tokens [0, stored_tokens) are in the remote cache or cannot be stored */
    uint32_t stored_tokens;
    bool entry_due; /* the prompt's logits and tail KV must be stored in the remote cache */
    struct mr_load_slot *load; /* the load from the remote cache; NULL: none */
    /* loaded with the prompt, to sample the next token without a forward pass; or NULL */
    const float *logits;
    uint32_t skipped; /* rounds in which a later candidate was admitted instead of this sequence */
    /* Guesses of the tokens that follow, which the planned step or the step in flight checks. Until
     * that step is launched they are also in tokens[num_tokens...]. */
    uint32_t drafts[MR_DRAFTS_MAX], draft_count;
    uint64_t costly_turn; /* when the sequence last ran as a costly one; see plan_decodes() */
    struct mr_prompt_lookup *lookup; /* owned by the job; NULL: the sequence gets no drafts */
    /* log-probabilities of its given tokens, owned by the job; NULL: not requested */
    struct mr_scores *scores;
    /* Pooled hidden state, owned by the job; NULL: not requested. text: which text of the job it is
     * of; tokens from second_begin on have token type 1, 0: none has. */
    struct mr_embedding *embedding;
    uint32_t text, second_begin;
    uint32_t preemptions, tokens_at_preemption;
    uint64_t last_token_ns;
};

/* Changes the state. Asserts that the table of state changes in sequence.c allows this change. */
void mr_sequence_move(struct mr_sequence *sequence, enum mr_sequence_state state);

/* Number of tokens without KV that no step in flight computes. */
static inline uint32_t mr_sequence_pending(const struct mr_sequence *sequence)
{
    return sequence->num_tokens - sequence->num_computed;
}

/* True when prompt tokens have no KV yet. False when only generated tokens have none, and for an
 * empty prompt. O(1). */
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

/* True while the sequence waits for blocks that are being loaded from the remote cache. */
static inline bool mr_sequence_is_held(const struct mr_sequence *sequence)
{
    return sequence->halts && sequence->num_computed >= sequence->held_at;
}

/* One more than the leading tokens whose KV may come from a cache; the last of them is the first to
 * compute. This is all tokens, unless the logits of a row are needed to score a token. */
uint32_t mr_sequence_reusable(const struct mr_sequence *sequence);
/* Appends a sampled token, or fills in the first unknown one. num_tokens must be below capacity. */
void mr_sequence_append(struct mr_sequence *sequence, uint32_t token_id);
/* Call when sampling row `row` of a launched step samples the sequence's next token: appends an
 * unknown token. */
void mr_sequence_append_unknown(struct mr_sequence *sequence, uint32_t row);
/* Call when the sequence ends: removes its unknown tokens; steps in flight no longer affect it. */
void mr_sequence_drop_unknown(struct mr_sequence *sequence);
/* Call when a step that computes `count` pending tokens was launched: adds them to num_computed.
 * Returns how many of them had already been computed before a preemption. */
uint32_t mr_sequence_advance(struct mr_sequence *sequence, uint32_t count);
/* Call when that step was collected. end: num_computed after the step's tokens. */
void mr_sequence_settle(struct mr_sequence *sequence, uint32_t end);
/* Sets num_computed and num_settled, and drops the drafts: no step in flight computes tokens of the
 * sequence. */
void mr_sequence_restart(struct mr_sequence *sequence, uint32_t num_computed);
/* Sets num_computed to `end`: the KV of tokens [num_computed, end) was loaded from Redis, or was
 * computed for drafts that the sampled tokens equal. */
void mr_sequence_jump(struct mr_sequence *sequence, uint32_t end);
void mr_sequence_check(const struct mr_sequence *sequence);

#endif
