/* logit_edits - the changes that a request makes to the model's logits before they become
 * probabilities, in this order: logit bias; masks (the row's bit mask, allowed ids, suppressed
 * ids, bad words);
 * repetition, presence and frequency penalty.
 *
 * The repetition penalty (Keskar et al., "CTRL", 2019) divides the positive logits, and multiplies
 * the negative logits, of all tokens of prompt and output. The presence penalty is subtracted once
 * from the logit of each token of the output; the frequency penalty is subtracted once per
 * occurrence.
 *
 * A masked logit is -infinity. Ids outside the vocabulary are ignored.
 * Threads: any. Memory: the caller's. */
#ifndef MR_OPS_SAMPLING_LOGIT_EDITS_H
#define MR_OPS_SAMPLING_LOGIT_EDITS_H

#include "ops/sampling/sample.h"

/* Returns whether the request's sampling settings change any logit. */
bool mr_logit_edits_any(const struct mr_sample_row *row);
/* logits: [vocab_size], a copy of the model's logits, edited in place. marks: [vocab_size] scratch,
 * zero before the call and after the call. */
void mr_logit_edits_apply(const struct mr_sample_row *row, uint32_t vocab_size, float *logits,
                          uint32_t *marks);

#endif
