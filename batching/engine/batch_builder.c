#include "batching/engine/batch_builder.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

enum mr_status mr_batch_builder_create(struct mr_batch_builder **out,
                                       const struct mr_batch_limits *limits,
                                       const struct mr_job_rules *rules, struct mr_error *err)
{
    *out = NULL;
    const uint32_t rows_max = limits->rows + limits->drafts, sequences_max = limits->sequences;
    struct mr_batch_builder *made = calloc(1, sizeof *made);
    if (made == NULL) return mr_fail(err, MR_NOMEM, "no memory for a step of %u rows", rows_max);
    size_t samples = (size_t)sequences_max * MR_CHOICES_MAX + limits->drafts + limits->scores;
    made->rows_max = rows_max;
    made->sequences_max = sequences_max;
    made->samples_max = (uint32_t)samples;
    made->rules = rules;
    if (rules->masks != NULL) made->mask_words = mr_token_mask_words(rules->masks);
    made->token_ids = calloc(rows_max, sizeof *made->token_ids);
    made->fed_by = calloc(rows_max, sizeof *made->fed_by);
    made->sequences = calloc(sequences_max, sizeof *made->sequences);
    made->sample_rows = calloc(samples, sizeof *made->sample_rows);
    made->sampled = calloc(samples, sizeof *made->sampled);
    made->logit_rows = calloc(sequences_max, sizeof *made->logit_rows);
    made->score_rows = calloc(sequences_max, sizeof *made->score_rows);
    made->hidden_indexes = calloc(sequences_max, sizeof *made->hidden_indexes);
    made->masks = calloc(samples * made->mask_words + 1, sizeof *made->masks);
    if (made->masks == NULL || made->token_ids == NULL || made->fed_by == NULL ||
        made->sequences == NULL || made->sample_rows == NULL || made->sampled == NULL ||
        made->logit_rows == NULL || made->score_rows == NULL || made->hidden_indexes == NULL) {
        mr_batch_builder_destroy(made);
        return mr_fail(err, MR_NOMEM, "no memory for a step of %u rows", rows_max);
    }
    *out = made;
    return MR_OK;
}

void mr_batch_builder_destroy(struct mr_batch_builder *builder)
{
    if (builder == NULL) return;
    free(builder->masks);
    free(builder->hidden_indexes);
    free(builder->score_rows);
    free(builder->logit_rows);
    free(builder->sampled);
    free(builder->sample_rows);
    free(builder->sequences);
    free(builder->fed_by);
    free(builder->token_ids);
    free(builder);
}

/* Number of logit rows that the plan row needs from the forward pass: those of its last rows. */
static uint32_t logit_rows_of(const struct mr_plan_row *row)
{
    const uint32_t end = row->sequence->num_computed + row->token_count;
    if (row->logits != NULL) return 0;
    if (row->score_count > 0) return end - row->score_begin;
    return row->samples ? 1 + row->draft_count : 0;
}

static void add_sequence(struct mr_batch_builder *builder, const struct mr_plan_row *row)
{
    const struct mr_sequence *sequence = row->sequence;
    struct mr_batch *batch = &builder->batch;
    MR_ASSERT(batch->row_count + row->token_count <= builder->rows_max);
    MR_ASSERT(batch->sequence_count < builder->sequences_max);
    memcpy(builder->token_ids + batch->row_count, sequence->tokens + sequence->num_computed,
           row->token_count * sizeof *builder->token_ids);
    for (uint32_t i = 0; i < row->token_count; i++)
        builder->fed_by[batch->row_count + i] = MR_ROW_KNOWN;
    if (sequence->unknown > 0) {
        builder->fed_by[batch->row_count + row->token_count - 1] = sequence->fed_row;
        builder->token_ids[batch->row_count + row->token_count - 1] = 0;
        builder->feeds = true;
    }
    builder->sequences[batch->sequence_count++] = (struct mr_batch_sequence){
        .row_begin = batch->row_count,
        .row_count = row->token_count,
        .context_tokens = sequence->num_computed,
        .blocks = sequence->table->blocks,
        .slots = sequence->table->slots,
        .state = sequence->table->state,
        .logit_rows = logit_rows_of(row),
        .hidden_rows = row->hidden_rows,
        .adapter = sequence->job->adapter ? sequence->job->adapter->weights : NULL,
        .second_begin = sequence->second_begin,
        .hidden_first = row->hidden_rows > 0 && sequence->embedding->pooling.first,
    };
    batch->row_count += row->token_count;
}

static uint64_t *mask_of(struct mr_batch_builder *builder)
{
    return builder->masks + (size_t)builder->sample_count * builder->mask_words;
}

/* Sets the mask of a row of a constrained request. is_over: a complete answer ends, even before
 * min_tokens. */
static void set_mask(struct mr_sample_row *row, const uint64_t *bits, bool is_over)
{
    if (is_over) row->suppressed_count = 0;
    row->allowed = bits;
}

static void add_sample(struct mr_batch_builder *builder, struct mr_sequence *sequence,
                       uint32_t logit_row, const float *logits)
{
    struct mr_sample_row row = mr_job_sample_row(sequence->job, sequence, 0);
    row.logit_row = logit_row;
    row.logits = logits;
    MR_ASSERT(builder->sample_count < builder->samples_max);
    if (sequence->job->guidance != NULL) {
        uint64_t *bits = mask_of(builder);
        bool is_over = mr_guidance_copy_mask(sequence->job->guidance, sequence->choice,
                                             mr_sequence_generated(sequence), bits);
        set_mask(&row, bits, is_over);
    }
    builder->sampled[builder->sample_count] = sequence;
    builder->sample_rows[builder->sample_count++] = row;
}

/* logit_row: logits of the row score_begin, which may score several tokens. */
static void add_scores(struct mr_batch_builder *builder, const struct mr_plan_row *row,
                       uint32_t logit_row)
{
    const uint32_t more =
        row->score_samples - row->score_count; /* tokens scored by that row after its first */
    for (uint32_t i = 0; i < row->score_samples; i++) {
        const uint32_t behind = i > more ? i - more : 0;
        struct mr_sample_row score =
            mr_job_score_row(row->sequence, row->score_begin + behind + 1, i > more ? 0 : i);
        score.logit_row = logit_row + behind;
        MR_ASSERT(builder->sample_count < builder->samples_max);
        builder->sampled[builder->sample_count] = NULL;
        builder->sample_rows[builder->sample_count++] = score;
    }
}

static void add_drafts(struct mr_batch_builder *builder, const struct mr_plan_row *planned,
                       uint32_t logit_row)
{
    const struct mr_sequence *sequence = planned->sequence;
    const size_t words = builder->mask_words;
    for (uint32_t i = 1; i <= planned->draft_count; i++) {
        struct mr_sample_row row = mr_job_sample_row(sequence->job, sequence, i);
        row.logit_row = logit_row + i;
        MR_ASSERT(builder->sample_count < builder->samples_max);
        if (sequence->job->guidance != NULL) {
            uint64_t *bits = mask_of(builder);
            memcpy(bits, planned->draft_masks + (i - 1) * words, words * sizeof *bits);
            set_mask(&row, bits, (planned->drafts_over >> (i - 1) & 1) != 0);
        }
        builder->sampled[builder->sample_count] = NULL;
        builder->sample_rows[builder->sample_count++] = row;
    }
}

/* Sequences that need hidden states come last in the batch. */
static void add_hidden(struct mr_batch_builder *builder, const struct mr_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        if (plan->rows[i].hidden_rows == 0) continue;
        builder->hidden_indexes[i] = count++;
        add_sequence(builder, &plan->rows[i]);
    }
}

void mr_batch_builder_build(struct mr_batch_builder *builder, const struct mr_plan *plan)
{
    builder->batch =
        (struct mr_batch){.token_ids = builder->token_ids, .sequences = builder->sequences};
    builder->sample_count = 0;
    builder->feeds = false;
    uint32_t logit_row = 0;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct mr_plan_row *row = &plan->rows[i];
        if (row->token_count > 0 && row->hidden_rows == 0) add_sequence(builder, row);
        const uint32_t first_logit_row = logit_row;
        logit_row += logit_rows_of(row);
        builder->logit_rows[i] = UINT32_MAX;
        builder->score_rows[i] = builder->sample_count;
        add_scores(builder, row, first_logit_row);
        if (!row->samples) continue;
        if (row->logits == NULL) builder->logit_rows[i] = logit_row - 1 - row->draft_count;
        struct mr_job *job = row->sequence->job;
        bool first = row->sequence->choice == 0 && mr_sequence_generated(row->sequence) == 0;
        for (uint32_t choice = 1; first && choice < job->choice_count; choice++)
            add_sample(builder, &job->sequences[choice], builder->logit_rows[i], row->logits);
        add_sample(builder, row->sequence, builder->logit_rows[i], row->logits);
        if (row->draft_count > 0) add_drafts(builder, row, builder->logit_rows[i]);
    }
    add_hidden(builder, plan);
}
