/* scores - log-probabilities of given tokens, which are not sampled: those of a request's prompt
 * (prompt_logprobs), or of several continuations of the prompt (task score).
 *
 * Row p of a sequence is the step's row for the token at position p. Its logits yield the
 * log-probability of the token at position p + 1. So the tokens [first, end) need the logits of the
 * rows [first - 1, end - 1). A step computes a limited number of such samples, so a chunk may be
 * shorter than others (batching/scheduler/schedule.c). Prefill is in order, also after a
 * preemption: the tokens before `known` are scored, and KV from a cache is used only for rows
 * whose logits are no longer needed.
 *
 * Continuations are scored one after the other on one sequence, which goes back to the end of the
 * prompt for each, so the prompt is computed once. The row of the prompt's last token scores the
 * first tokens of all of them, its `heads`; a continuation of one token needs no row of its own.
 *
 * Owner: engine thread; the submitting thread creates it. Memory: one zeroed block in _create.
 * Errors: only _create. Units: positions in the sequence. */
#ifndef MR_BATCHING_SEQUENCE_SCORES_H
#define MR_BATCHING_SEQUENCE_SCORES_H

#include "batching/sequence/token_text.h"
#include "codec/records/request.h"
#include "codec/records/result.h"
#include "ops/sampling/sample.h"

/* Most log-probabilities of given tokens in a result, including alternatives. */
#define MR_SCORES_MAX 262144u

struct mr_scores {
    uint32_t first, end; /* tokens [first, end) are scored; first >= 1 */
    uint32_t known;      /* [first, known) have their log-probabilities from collected steps */
    uint32_t top_width;  /* alternatives of each token */
    uint32_t head_count; /* continuations; 1 for a prompt */
    uint32_t current;    /* the continuation that [first, end) is */
    const struct mr_continuation *continuations; /* [head_count], borrowed; NULL for a prompt */
    struct mr_logprobs *list; /* of a prompt by position; of continuations one after the other */
    uint32_t *offsets;        /* [head_count + 1] in list, of each continuation's first token */
    struct mr_token_logprob *top; /* top_width alternatives of each entry of the list */
};

/* The tokens to score. */
struct mr_scores_spec {
    uint32_t token_count, top_width;             /* of the prompt; alternatives of each token */
    const struct mr_continuation *continuations; /* NULL: the prompt itself */
    uint32_t continuation_count;
};

/* Scores of the tokens [1, token_count) of a prompt, or of its continuations; token_count >= 1.
 * MR_INVALID_REQUEST: more than MR_SCORES_MAX; MR_NOMEM. */
enum mr_status mr_scores_create(struct mr_scores **out, const struct mr_scores_spec *spec,
                                struct mr_error *err);
/* Bytes that mr_scores_create() allocates. */
size_t mr_scores_bytes(const struct mr_scores_spec *spec);
void mr_scores_destroy(struct mr_scores *scores); /* may be NULL */

/* True when nothing is left to score of the prompt or of the current continuation; also for NULL.
 */
static inline bool mr_scores_done(const struct mr_scores *scores)
{
    return scores == NULL || scores->known == scores->end;
}

/* Makes the next continuation that has tokens to score the current one; the current one must be
 * done. False: there is none. scores may be NULL. */
bool mr_scores_next(struct mr_scores *scores);

/* The first of the rows [begin, end) of the sequence whose logits are needed; *count: how many,
 * 0 if none. scores may be NULL. */
uint32_t mr_scores_rows(const struct mr_scores *scores, uint32_t begin, uint32_t end,
                        uint32_t *count);
/* Tokens that these rows, [begin, begin + count), score. */
uint32_t mr_scores_samples(const struct mr_scores *scores, uint32_t begin, uint32_t count);
/* End of a chunk that begins at row `begin` and may score samples_max tokens. The rows that need
 * logits are then the chunk's last ones, or its last ones before the row of the token at
 * scores->end - 1. Some scores must be unknown. token_count: of the sequence. */
uint32_t mr_scores_chunk_end(const struct mr_scores *scores, uint32_t begin, uint32_t token_count,
                             uint32_t samples_max);
/* Records the sample of the token at `position`, which a collected step computed. Positions come in
 * order; one that is known may come again after a preemption. */
void mr_scores_put(struct mr_scores *scores, uint32_t position, const struct mr_sample *sample,
                   const struct mr_token_text *texts);
/* Records the first token of every continuation: samples[head_count]. */
void mr_scores_put_heads(struct mr_scores *scores, const struct mr_sample *samples,
                         const struct mr_token_text *texts);

#endif
