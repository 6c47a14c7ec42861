#include "ops/model/step_queue.h"

#include "codec/check.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/sampler.h"

#include <stdlib.h>
#include <string.h>

/* A step, and the places of its results. */
struct flight {
    bool on_device;             /* the device computes or searches something */
    uint32_t query_count;       /* rows that the device searches */
    struct mr_device_row *rows; /* [samples_max] of the queries */
    struct mr_sample **results; /* [samples_max] places for the samples of the queries */
    /* [samples_max] by sampling row: its query; MR_ROW_KNOWN: the host drew samples[row] */
    uint32_t *queries;
    const struct mr_sample *samples; /* the caller's */
    uint32_t sample_count;
};

struct mr_step_queue {
    struct mr_step_queue_spec spec;
    struct mr_sampler *sampler;
    struct flight flights[MR_STEPS_AHEAD_MAX];
    uint32_t room, first, count;     /* in flight: `count` from `first` on, in a ring of `room` */
    struct mr_sample_row *host_rows; /* [samples_max] rows that the host draws, with their logits */
    struct mr_sample *found;         /* [samples_max] samples made from findings */
    /* the input of a step with fed rows */
    uint32_t *token_ids, *fed_rows, *fed_queries; /* [rows_max] */
};

/* ---- create and destroy ---- */

static bool create_flight(struct flight *flight, size_t samples)
{
    flight->rows = calloc(samples, sizeof *flight->rows);
    flight->results = calloc(samples, sizeof *flight->results);
    flight->queries = calloc(samples, sizeof *flight->queries);
    return flight->rows && flight->results && flight->queries;
}

static bool create_arrays(struct mr_step_queue *queue)
{
    const size_t samples = queue->spec.samples_max, rows = queue->spec.rows_max;
    queue->host_rows = calloc(samples, sizeof *queue->host_rows);
    queue->found = calloc(samples, sizeof *queue->found);
    queue->token_ids = calloc(rows, sizeof *queue->token_ids);
    queue->fed_rows = calloc(rows, sizeof *queue->fed_rows);
    queue->fed_queries = calloc(rows, sizeof *queue->fed_queries);
    bool made = queue->host_rows && queue->found && queue->token_ids && queue->fed_rows &&
                queue->fed_queries;
    for (uint32_t i = 0; made && i < queue->room; i++)
        made = create_flight(&queue->flights[i], samples);
    return made;
}

enum mr_status mr_step_queue_create(struct mr_step_queue **out,
                                    const struct mr_step_queue_spec *spec, struct mr_error *err)
{
    *out = NULL;
    const uint32_t ahead = mr_decoder_steps_ahead(spec->decoder);
    const struct mr_sampler_spec sampler = {.vocab_size = spec->vocab_size,
                                            .thread_count = mr_parallel_thread_count()};
    MR_ASSERT(spec->rows_max > 0 && spec->samples_max > 0 && ahead <= MR_STEPS_AHEAD_MAX);
    struct mr_step_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return mr_fail(err, MR_NOMEM, "no memory for the steps of a model");
    queue->spec = *spec;
    queue->room = ahead > 0 ? ahead : 1;
    enum mr_status status =
        create_arrays(queue)
            ? MR_OK
            : mr_fail(err, MR_NOMEM, "no memory for %u sample rows", spec->samples_max);
    if (status == MR_OK) status = mr_sampler_create(&queue->sampler, &sampler, err);
    if (status != MR_OK) {
        mr_step_queue_destroy(queue);
        return status;
    }
    *out = queue;
    return MR_OK;
}

void mr_step_queue_destroy(struct mr_step_queue *queue)
{
    if (!queue) return;
    for (uint32_t i = 0; i < MR_STEPS_AHEAD_MAX; i++) {
        free(queue->flights[i].queries);
        free(queue->flights[i].results);
        free(queue->flights[i].rows);
    }
    mr_sampler_destroy(queue->sampler);
    free(queue->fed_queries);
    free(queue->fed_rows);
    free(queue->token_ids);
    free(queue->found);
    free(queue->host_rows);
    free(queue);
}

/* ---- the input ---- */

/* Launches the batch of a step. A fed row takes its token from the step before: from the host if
 * the host drew it, else from the device. */
static void launch_batch(struct mr_step_queue *queue, const struct mr_model_step *step,
                         const struct flight *before)
{
    struct mr_batch batch = *step->batch;
    struct mr_fed_rows fed = {.rows = queue->fed_rows, .queries = queue->fed_queries};
    MR_ASSERT(batch.row_count <= queue->spec.rows_max && (!step->fed_by || before));
    if (step->fed_by) {
        memcpy(queue->token_ids, batch.token_ids, batch.row_count * sizeof *queue->token_ids);
        batch.token_ids = queue->token_ids;
    }
    for (uint32_t row = 0; step->fed_by && row < batch.row_count; row++) {
        const uint32_t by = step->fed_by[row];
        if (by == MR_ROW_KNOWN) continue;
        MR_ASSERT(by < before->sample_count);
        if (before->queries[by] == MR_ROW_KNOWN) {
            queue->token_ids[row] = before->samples[by].token_id;
            continue;
        }
        queue->token_ids[row] = 0;
        queue->fed_rows[fed.count] = row;
        queue->fed_queries[fed.count++] = before->queries[by];
    }
    mr_decoder_launch(queue->spec.decoder, &batch, fed.count > 0 ? &fed : NULL);
}

/* ---- the draws ---- */

/* Draws from rows [begin, end), whose logits are in memory of the host. */
static void draw_on_host(struct mr_step_queue *queue, const struct mr_model_step *step,
                         uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        queue->host_rows[i] = step->rows[i];
        if (!step->rows[i].logits)
            queue->host_rows[i].logits =
                mr_decoder_logits(queue->spec.decoder, step->rows[i].logit_row, NULL);
    }
    if (begin < end)
        mr_sampler_run(queue->sampler, queue->host_rows + begin, end - begin,
                       step->samples + begin);
}

/* Adds the query for a row whose logits are in memory of the device. */
static void add_query(struct mr_step_queue *queue, struct flight *flight,
                      const struct mr_sample_row *row, struct mr_sample *sample)
{
    struct mr_device_row *out = &flight->rows[flight->query_count];
    struct mr_logit_query query;
    *out = (struct mr_device_row){.logit_row = row->logit_row, .needs_logits = true};
    mr_sampler_describe(queue->sampler, row, &query, &out->draw);
    mr_decoder_query(queue->spec.decoder, &query);
    flight->results[flight->query_count++] = sample;
}

/* Draws the rows whose logits the host has, and enqueues the device's search of the other rows. */
static void begin_samples(struct mr_step_queue *queue, const struct mr_model_step *step,
                          struct flight *flight)
{
    const bool searches = mr_decoder_steps_ahead(queue->spec.decoder) > 0;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < step->sample_count; i++) {
        flight->queries[i] = MR_ROW_KNOWN;
        if (!searches || step->rows[i].logits) continue;
        draw_on_host(queue, step, begin, i);
        flight->queries[i] = flight->query_count;
        add_query(queue, flight, &step->rows[i], &step->samples[i]);
        begin = i + 1;
    }
    MR_ASSERT(flight->on_device || flight->query_count == 0 || queue->count == 0);
    flight->on_device = flight->on_device || flight->query_count > 0;
    if (searches && flight->on_device) mr_decoder_search(queue->spec.decoder);
    draw_on_host(queue, step, begin, step->sample_count);
}

enum mr_status mr_step_queue_launch(struct mr_step_queue *queue, const struct mr_model_step *step,
                                    struct mr_error *err)
{
    const bool ends_in_call = mr_decoder_steps_ahead(queue->spec.decoder) == 0;
    struct flight *flight = &queue->flights[(queue->first + queue->count) % queue->room];
    const struct flight *before =
        queue->count > 0 ? &queue->flights[(queue->first + queue->count - 1) % queue->room] : NULL;
    MR_ASSERT(queue->count < queue->room && step->sample_count <= queue->spec.samples_max);
    flight->on_device = step->batch->row_count > 0;
    flight->query_count = 0;
    flight->samples = step->samples;
    flight->sample_count = step->sample_count;
    if (flight->on_device) launch_batch(queue, step, before);
    if (ends_in_call) {
        enum mr_status status = mr_decoder_finish(queue->spec.decoder, err);
        if (status != MR_OK) return status;
        flight->on_device = false;
    }
    begin_samples(queue, step, flight);
    queue->count++;
    return MR_OK;
}

/* ---- the results ---- */

/* Fetches the whole logits of the rows whose findings do not determine the sample. */
static enum mr_status fetch_rows(struct mr_step_queue *queue, struct flight *flight,
                                 struct mr_error *err)
{
    const struct mr_decoder *decoder = queue->spec.decoder;
    for (uint32_t i = 0; i < flight->query_count; i++) {
        struct mr_device_row *row = &flight->rows[i];
        if (!row->needs_logits) continue;
        row->edited = mr_decoder_edited(decoder, i, err);
        row->model = mr_decoder_logits(decoder, row->logit_row, err);
        if (!row->edited || !row->model) return MR_BACKEND;
    }
    return MR_OK;
}

enum mr_status mr_step_queue_collect(struct mr_step_queue *queue, struct mr_error *err)
{
    if (queue->count == 0) return MR_OK;
    struct flight *flight = &queue->flights[queue->first];
    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    if (!flight->on_device) return MR_OK;
    const uint32_t count = flight->query_count;
    enum mr_status status = mr_decoder_finish(queue->spec.decoder, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < count; i++)
        flight->rows[i].found = mr_decoder_findings(queue->spec.decoder, i);
    if (mr_sampler_draw(queue->sampler, flight->rows, count, queue->found) > 0) {
        status = fetch_rows(queue, flight, err);
        if (status != MR_OK) return status;
        (void)mr_sampler_draw(queue->sampler, flight->rows, count, queue->found);
    }
    for (uint32_t i = 0; i < count; i++)
        *flight->results[i] = queue->found[i];
    return MR_OK;
}
