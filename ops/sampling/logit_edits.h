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
 * A masked logit is -infinity. Ids outside the vocabulary are ignored. The changes are collected as
 * a list and a mask, which a device (ops/backend/logit_search.h) or _apply applies.
 * State: scratch for one row. Owner: one thread at a time. Memory: allocated in _create, about 5
 * words for each id of the vocabulary. */
#ifndef MR_OPS_SAMPLING_LOGIT_EDITS_H
#define MR_OPS_SAMPLING_LOGIT_EDITS_H

#include "codec/status.h"
#include "ops/backend/logit_search.h"
#include "ops/sampling/sample.h"

struct mr_logit_edits;

enum mr_status mr_logit_edits_create(struct mr_logit_edits **out, uint32_t vocab_size,
                                     struct mr_error *err);
void mr_logit_edits_destroy(struct mr_logit_edits *edits);

/* Returns whether the request's sampling settings change any logit. */
bool mr_logit_edits_any(const struct mr_sample_row *row);
/* Returns the row's bias and penalties as edits, at most one for each id of the vocabulary;
 * borrowed until the next call. Masks are separate. */
const struct mr_logit_edit *mr_logit_edits_list(struct mr_logit_edits *edits,
                                                const struct mr_sample_row *row, uint32_t *count);
/* Returns all masks of the row as one bit mask, in the form of struct mr_logit_query, borrowed
 * until the next call; NULL: nothing is masked. */
const uint64_t *mr_logit_edits_mask(struct mr_logit_edits *edits, const struct mr_sample_row *row);
/* logits: [vocab_size], a copy of the model's logits, edited in place. */
void mr_logit_edits_apply(struct mr_logit_edits *edits, const struct mr_sample_row *row,
                          float *logits);

#endif
