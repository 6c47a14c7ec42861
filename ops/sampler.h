/* sampler - one row of logits to one token: penalties, bias, masks, temperature, top-k, top-p,
 * min-p, typical, then a draw. Order: logit bias and masks, repetition, presence and frequency
 * penalties, temperature, top-k, top-p, min-p, typical. Temperature 0 is greedy: the lowest id
 * among equals.
 *
 * The draw is a function of (seed, position) alone: Philox-4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011), so batch, preemption and redelivery cannot change a token.
 * Owner: engine thread. Memory: a scratch of vocab_size made in _create; never a full sort. */
#ifndef MR_OPS_SAMPLER_H
#define MR_OPS_SAMPLER_H

#include "ops/model.h"

struct mr_sampler;

enum mr_status mr_sampler_create(struct mr_sampler **out, uint32_t vocab_size,
                                 struct mr_error *err);
void mr_sampler_destroy(struct mr_sampler *sampler);
/* row->logits must be given; they are not changed. */
void mr_sampler_run(struct mr_sampler *sampler, const struct mr_sample_row *row,
                    struct mr_sample *out);
/* Uniform in [0, 1) with 24 bits, from (seed, position). */
float mr_sampler_uniform(uint64_t seed, uint32_t position);

#endif
