/* sample - the input and the result of drawing one token.
 *
 * Plain values. Memory: arrays are borrowed for the call. Errors: none. */
#ifndef MR_OPS_SAMPLING_SAMPLE_H
#define MR_OPS_SAMPLING_SAMPLE_H

#include "codec/limits.h"
#include "codec/records/request.h"

#include <stdbool.h>
#include <stdint.h>

/* One row to sample. history: prompt and output in order, for the penalties and bad words. */
struct mr_sample_row {
    uint32_t logit_row;                 /* logit row of the last step; ignored if logits is set */
    const float *logits;                /* [vocab_size] in host memory, or NULL: use logit_row */
    const struct mr_sampling *sampling; /* all defaults filled in: no NaN temperature */
    uint64_t seed;
    /* Position in the sequence of the token to draw; randomness depends on seed and position only.
     */
    uint32_t position;
    const uint32_t *history;
    uint32_t history_count, prompt_count;
    const uint32_t *suppressed; /* ids that may not be drawn (end tokens before min_tokens) */
    uint32_t suppressed_count, bad_word_count;
    /* [(vocab_size + 63) / 64] bit id % 64 of word id / 64 is set for the ids that may be drawn;
     * NULL: all. At least one bit is set. */
    const uint64_t *allowed;
    const uint32_t *const *bad_words; /* token sequences that must not be completed */
    const uint32_t *bad_word_counts;
    /* Nothing is drawn: the sample is the token given_id with its log-probability, the best
     * log-probabilities, and probability 0. The only setting with an effect is
     * sampling->logprobs. */
    bool given;
    uint32_t given_id;
};

struct mr_sample {
    /* The model's logits have a NaN or +infinity, or are all -infinity: no token was drawn, and the
     * other fields are 0. */
    bool failed;
    uint32_t token_id;
    float probability; /* probability of the token in the distribution from which it was drawn */
    float logprob;     /* natural log of the token's probability according to the model's unedited
                          logits */
    uint32_t top_count;
    uint32_t top_ids[MR_LOGPROBS_MAX];
    float top_logprobs[MR_LOGPROBS_MAX];
};

#endif
