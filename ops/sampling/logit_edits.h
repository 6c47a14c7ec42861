/* logit_edits - what a request asks to be done to the model's logits before they become
 * probabilities, in this order: logit bias; masks (allowed ids, suppressed ids, bad words);
 * repetition, presence and frequency penalty.
 *
 * Repetition (Keskar et al., "CTRL", 2019) divides the positive logit of every token of prompt and
 * output by the penalty and multiplies a negative one; presence takes its value once from each
 * token of the output, frequency takes its value times their count.
 *
 * A masked logit is -infinity. Ids outside the vocabulary are passed over.
 * Threads: any. Memory: the caller's. */
#ifndef MR_OPS_SAMPLING_LOGIT_EDITS_H
#define MR_OPS_SAMPLING_LOGIT_EDITS_H

#include "ops/sampling/sample.h"

/* Whether the request changes any logit. */
bool mr_logit_edits_any(const struct mr_sample_row *row);
/* logits: [vocab_size], a copy of the model's. marks: [vocab_size] zeros, and zeros again after. */
void mr_logit_edits_apply(const struct mr_sample_row *row, uint32_t vocab_size, float *logits,
                          uint32_t *marks);

#endif
