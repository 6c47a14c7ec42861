/* sample - what goes into a draw and what comes out of it.
 *
 * Plain values. Memory: arrays are borrowed for the call. Errors: none. */
#ifndef MR_OPS_SAMPLING_SAMPLE_H
#define MR_OPS_SAMPLING_SAMPLE_H

#include "codec/limits.h"
#include "codec/records/request.h"

#include <stdint.h>

/* One row to sample. History is prompt and output in order, for the penalties and bad words. */
struct mr_sample_row {
    uint32_t logit_row;                 /* of the last forward; ignored when logits is given */
    const float *logits;                /* host memory [vocab_size], or NULL */
    const struct mr_sampling *sampling; /* temperature resolved (not NaN) */
    uint64_t seed;
    uint32_t position; /* index of the token to draw: randomness = f(seed, position) alone */
    const uint32_t *history;
    uint32_t history_count, prompt_count;
    const uint32_t *suppressed; /* ids that may not come now (end tokens below min_tokens) */
    uint32_t suppressed_count, bad_word_count;
    const uint32_t *const *bad_words; /* token sequences whose last token must not complete */
    const uint32_t *bad_word_counts;
};

struct mr_sample {
    uint32_t token_id;
    float probability; /* of the token in the distribution it was drawn from */
    float logprob;     /* natural log, from the model's own logits, before any penalty */
    uint32_t top_count;
    uint32_t top_ids[MR_LOGPROBS_MAX];
    float top_logprobs[MR_LOGPROBS_MAX];
};

#endif
