/* The steps in flight: their buffers, the immediate effects of a launch, and rows that become
 * surplus. */
#include "batching/cache/remote_prefix.h"
#include "batching/engine/engine_state.h"
#include "codec/check.h"

#include <stdlib.h>

enum mr_status mr_engine_create_flights(struct mr_engine *engine, struct mr_error *err)
{
    const struct mr_engine_options *options = &engine->options;
    size_t sequences = options->sequences_max;
    const struct mr_batch_limits limits = {options->rows_max, options->sequences_max,
                                           options->draft_rows_max, options->score_rows_max};
    engine->flight_room = options->model.steps_ahead > 0 ? options->model.steps_ahead : 1;
    for (uint32_t i = 0; i < engine->flight_room; i++) {
        struct mr_flight *flight = &engine->flights[i];
        enum mr_status status =
            mr_batch_builder_create(&flight->builder, &limits, &engine->rules, err);
        if (status != MR_OK) return status;
        flight->samples = calloc(flight->builder->samples_max, sizeof *flight->samples);
        flight->rows = calloc(sequences, sizeof *flight->rows);
        if (flight->samples == NULL || flight->rows == NULL)
            return mr_fail(err, MR_NOMEM, "no memory for a step of %zu sequences", sequences);
    }
    return MR_OK;
}

void mr_engine_destroy_flights(struct mr_engine *engine)
{
    const struct mr_model_port *model = &engine->options.model;
    /* The model writes the samples of a step until the step is collected. */
    for (uint32_t i = 0; i < engine->flight_count; i++)
        (void)model->collect(model->context, NULL);
    for (uint32_t i = 0; i < engine->flight_room; i++) {
        mr_batch_builder_destroy(engine->flights[i].builder);
        free(engine->flights[i].samples);
        free(engine->flights[i].rows);
    }
}

struct mr_flight *mr_engine_flight(struct mr_engine *engine, uint32_t index)
{
    return &engine->flights[(engine->flight_first + index) % engine->flight_room];
}

static void note_row(struct mr_engine *engine, const struct mr_plan_row *row)
{
    struct mr_sequence *sequence = row->sequence;
    struct mr_job *job = sequence->job;
    if (row->logits != NULL) engine->stats.prompt_cache_hits++;
    if (engine->remote != NULL && sequence->logits != NULL)
        mr_remote_prefix_end_load(engine->remote, sequence);
    if (row->token_count == 0) return;
    uint32_t again = mr_sequence_advance(sequence, row->token_count - row->draft_count);
    job->draft_tokens += row->draft_count;
    engine->stats.drafts += row->draft_count > 0;
    engine->stats.draft_tokens += row->draft_count;
    job->recomputed_tokens += again;
    engine->stats.recomputed_tokens += again;
    if (row->decode) return;
    job->prefill_chunks++;
    engine->stats.prompt_tokens += row->token_count;
}

/* True when the row computes the logits of the request's prompt for the first time. */
static bool is_prompt_end(const struct mr_sequence *sequence)
{
    return sequence->choice == 0 && mr_sequence_generated(sequence) == 0;
}

void mr_engine_note_launch(struct mr_engine *engine, struct mr_flight *flight,
                           const struct mr_plan *plan)
{
    const struct mr_batch_builder *builder = flight->builder;
    flight->work = plan->work;
    flight->row_count = plan->row_count;
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const struct mr_plan_row *row = &plan->rows[i];
        struct mr_sequence *sequence = row->sequence;
        note_row(engine, row);
        flight->rows[i] = (struct mr_flight_row){
            .sequence = sequence,
            .token_count = row->token_count,
            .end = sequence->num_computed,
            .preemptions = sequence->preemptions,
            .prefill = row->token_count > 0 && !row->decode,
            .logit_row = is_prompt_end(sequence) ? builder->logit_rows[i] : UINT32_MAX,
            .hidden_rows = row->hidden_rows,
            .hidden_index = builder->hidden_indexes[i],
            .score_row = builder->score_rows[i],
            .score_first = row->score_begin + 1,
            .score_count = row->score_count,
            .score_samples = row->score_samples};
        if (row->hidden_rows > 0) sequence->embedding->in_flight++;
        if (engine->remote != NULL && row->token_count > 0)
            mr_remote_prefix_join_load(engine->remote, sequence);
    }
    for (uint32_t i = 0; i < builder->sample_count; i++)
        if (builder->sampled[i] != NULL && builder->sampled[i]->state == MR_SEQUENCE_RUNNING)
            mr_sequence_append_unknown(builder->sampled[i], i);
}

static void drop_rows(struct mr_flight *flight, const struct mr_sequence *sequence)
{
    for (uint32_t i = 0; i < flight->row_count; i++)
        if (flight->rows[i].sequence == sequence) flight->rows[i].sequence = NULL;
    for (uint32_t i = 0; i < flight->builder->sample_count; i++)
        if (flight->builder->sampled[i] == sequence) flight->builder->sampled[i] = NULL;
}

void mr_engine_drop_rows(struct mr_engine *engine, const struct mr_sequence *sequence)
{
    if (engine->applied != NULL) drop_rows(engine->applied, sequence);
    for (uint32_t step = 0; step < engine->flight_count; step++)
        drop_rows(mr_engine_flight(engine, step), sequence);
}
