/* batch_builder - converts a plan to the flat arrays that the model takes: token ids, sequences in
 * row order, and one sampling row for each sequence whose last known token is in the step.
 *
 * When a request's prompt is computed for the first time, the request's further choices sample
 * their first token from the same logits. Their rows come before that of the first choice: so they
 * already wait to run if the first choice ends with its first token and hands over its blocks.
 *
 * Tokens of a prompt that are scored (batching/sequence/scores.h) have sampling rows too, which
 * draw nothing. They come before the row that draws the sequence's next token.
 *
 * The sampling rows of a sequence's drafts follow its own sampling row: row i samples the token
 * that follows the first i drafts.
 *
 * A row of a constrained request gets a copy of the mask of its next token.
 *
 * Owner: engine thread. Memory: all in _create; the arrays point into the plan's sequences and are
 * valid until these sequences change. Errors: only _create. */
#ifndef MR_BATCHING_ENGINE_BATCH_BUILDER_H
#define MR_BATCHING_ENGINE_BATCH_BUILDER_H

#include "batching/base/model_port.h"
#include "batching/scheduler/plan.h"

/* Limits of one step. rows: of all sequences, without rows of drafts. scores: scored tokens. */
struct mr_batch_limits {
    uint32_t rows, sequences, drafts, scores;
};

struct mr_batch_builder {
    uint32_t rows_max, sequences_max; /* rows_max: including rows of drafts */
    uint32_t samples_max;             /* sequences_max * MR_CHOICES_MAX, drafts and scored tokens */
    const struct mr_job_rules *rules; /* borrowed */
    uint32_t *token_ids;              /* [rows_max] token ids of all rows of the step */
    uint32_t *fed_by;                 /* [rows_max] as in struct mr_model_step */
    bool feeds; /* a row of the batch takes its token from the previous step */
    struct mr_batch_sequence *sequences; /* [sequences_max] sequences that have rows in the step */
    /* [samples_max] one row for each token to sample */
    struct mr_sample_row *sample_rows;
    /* [sample_count] the sequence that each sampling row samples for; NULL: the row is of a draft
     * or of a scored token */
    struct mr_sequence **sampled;
    uint32_t sample_count;
    /* [samples_max][mask_words] tokens that the sampling rows of constrained
     * requests may draw */
    uint64_t *masks;
    uint32_t mask_words;
    /* [sequences_max] for each row of the plan the index of the row of logits that samples its next
     * token; UINT32_MAX: it samples nothing, or not from the forward pass */
    uint32_t *logit_rows;
    /* [sequences_max] for each row of the plan with hidden_rows its number among them */
    uint32_t *hidden_indexes;
    /* [sequences_max] for each row of the plan the first sampling row of its scored tokens */
    uint32_t *score_rows;
    struct mr_batch batch;
};

enum mr_status mr_batch_builder_create(struct mr_batch_builder **out,
                                       const struct mr_batch_limits *limits,
                                       const struct mr_job_rules *rules, struct mr_error *err);
void mr_batch_builder_destroy(struct mr_batch_builder *builder);
/* Fills builder->batch and the sampling rows from the plan. batch.row_count 0: no forward pass is
 * needed. */
void mr_batch_builder_build(struct mr_batch_builder *builder, const struct mr_plan *plan);

#endif
