/* batch_builder - converts a plan to the flat arrays that the model takes: token ids, sequences in
 * row order, and one sampling row for each sequence that reached its last known token.
 *
 * When a request's prompt is computed for the first time, its other choices sample their first
 * token from the same logits.
 *
 * Owner: engine thread. Memory: all in _create; the arrays point into the sequences and are valid
 * until these change. Errors: only _create. */
#ifndef MR_BATCHING_BATCH_BUILDER_H
#define MR_BATCHING_BATCH_BUILDER_H

#include "batching/scheduler/plan.h"

struct mr_batch_builder {
    uint32_t rows_max, sequences_max;
    uint32_t *token_ids;                 /* [rows_max] */
    struct mr_batch_sequence *sequences; /* [sequences_max] */
    struct mr_sample_row *sample_rows;   /* [sequences_max * MR_CHOICES_MAX] */
    struct mr_sequence **sampled;        /* [sample_count] the sequence of each sample row */
    uint32_t sample_count;
    uint32_t *logit_rows; /* [sequences_max] logit row of plan row i; UINT32_MAX: none */
    struct mr_batch batch;
};

enum mr_status mr_batch_builder_create(struct mr_batch_builder **out, uint32_t rows_max,
                                       uint32_t sequences_max, struct mr_error *err);
void mr_batch_builder_destroy(struct mr_batch_builder *builder);
/* Fills batch (row_count 0: nothing to compute) and the sampling rows. */
void mr_batch_builder_build(struct mr_batch_builder *builder, const struct mr_plan *plan);

#endif
