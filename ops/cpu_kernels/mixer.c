#include "ops/cpu_kernels/mixer.h"

#include "codec/check.h"
#include "ops/cpu_kernels/level.h"
#include "ops/cpu_kernels/parallel.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LANES 16u
/* With fewer floats for each thread a parallel loop costs more than it saves. */
#define GATE_GRAIN_FLOATS 16384u

/* ---- the pool ---- */

static size_t pool_bytes(const struct mr_cpu_states *states)
{
    return states->slot_count * states->slot_floats * sizeof(float);
}

enum mr_status mr_cpu_states_create(struct mr_cpu_states **out, const struct mr_mixer_shape *shape,
                                    uint32_t layer_count, uint32_t slot_count, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(layer_count > 0 && slot_count > 0);
    struct mr_cpu_states *states = calloc(1, sizeof *states);
    if (!states) return mr_fail(err, MR_NOMEM, "no memory for %u states", slot_count);
    *states = (struct mr_cpu_states){.shape = *shape,
                                     .layer_count = layer_count,
                                     .slot_count = slot_count,
                                     .slot_floats = layer_count * mr_mixer_state_floats(shape)};
    void *pages =
        mmap(NULL, pool_bytes(states), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        free(states);
        return mr_fail(err, MR_NOMEM, "no memory for %u states", slot_count);
    }
    states->memory = pages;
    *out = states;
    return MR_OK;
}

void mr_cpu_states_destroy(struct mr_cpu_states *states)
{
    if (!states) return;
    (void)munmap(states->memory, pool_bytes(states));
    free(states);
}

float *mr_cpu_states_slot(const struct mr_cpu_states *states, uint32_t slot)
{
    MR_ASSERT(slot < states->slot_count);
    return states->memory + slot * states->slot_floats;
}

/* ---- a layer ---- */

struct mix_run {
    const struct mr_cpu_mixer *mixer;
    const struct mr_mixer_shape *shape;
    const struct mr_cpu_ops *ops;
    float *rows;
    const float *gates;
    unsigned char *out;
    size_t row_width, out_width;
    uint32_t parts; /* items of a sequence */
};

static float *state_of(const struct mix_run *run, const struct mr_cpu_mixer_sequence *sequence)
{
    return mr_cpu_states_slot(run->mixer->states, sequence->slot) +
           run->mixer->layer * mr_mixer_state_floats(run->shape);
}

/* Items are pairs of a sequence and 16 channels. */
static void convolve(void *context, size_t begin, size_t end)
{
    const struct mix_run *run = context;
    const struct mr_cpu_mixer *mixer = run->mixer;
    const uint32_t channels = mr_mixer_channels(run->shape);
    for (size_t item = begin; item < end; item++) {
        const struct mr_cpu_mixer_sequence *sequence = &mixer->sequences[item / run->parts];
        const uint32_t channel = (uint32_t)(item % run->parts) * LANES;
        float *row = run->rows + sequence->row_begin * run->row_width + channel;
        struct mr_cpu_mix_conv conv = {.taps = mixer->taps + channel,
                                       .bias = mixer->bias ? mixer->bias + channel : NULL,
                                       .channel_count = channels,
                                       .tap_count = run->shape->taps,
                                       .count =
                                           channels - channel < LANES ? channels - channel : LANES,
                                       .window = state_of(run, sequence) + channel,
                                       .window_stride = mr_mixer_window_stride(run->shape),
                                       .fresh = sequence->context_tokens == 0,
                                       .x = row + mr_mixer_first_channel(run->shape),
                                       .stride = run->row_width,
                                       .rows = sequence->row_count,
                                       .bf16 = mixer->bf16};
        if (run->shape->kind == MR_MIXER_CONV) {
            conv.before = row;
            conv.after = row + channels;
            conv.x = row + 2 * (size_t)channels;
            conv.out = run->out + (sequence->row_begin * run->out_width + channel) *
                                      (mixer->bf16 ? sizeof(uint16_t) : sizeof(float));
            conv.out_stride = run->out_width;
        }
        run->ops->mix->conv(&conv);
    }
}

static uint32_t head_parts(const struct mr_mixer_shape *shape)
{
    return (shape->value_dim + MR_CPU_MIX_COLUMNS - 1) / MR_CPU_MIX_COLUMNS;
}

/* Items are triples of a sequence, a head, and some of its columns. */
static void scan(void *context, size_t begin, size_t end)
{
    const struct mix_run *run = context;
    const struct mr_cpu_mixer *mixer = run->mixer;
    const struct mr_mixer_shape *shape = run->shape;
    const uint32_t gates = mr_mixer_gates_width(shape), each = head_parts(shape);
    for (size_t item = begin; item < end; item++) {
        const struct mr_cpu_mixer_sequence *sequence = &mixer->sequences[item / run->parts];
        const uint32_t part = (uint32_t)(item % run->parts), head = part / each;
        const uint32_t column = part % each * MR_CPU_MIX_COLUMNS, left = shape->value_dim - column;
        float *row = run->rows + sequence->row_begin * run->row_width;
        const float *gate = run->gates + (size_t)sequence->row_begin * gates + head;
        const bool delta = shape->kind == MR_MIXER_DELTA;
        const struct mr_cpu_mix_scan work = {
            .kind = shape->kind,
            .k = row + mr_mixer_key_at(shape, head),
            .q = row + mr_mixer_query_at(shape, head),
            .v = row + mr_mixer_value_at(shape, head) + column,
            .gate = delta ? gate + shape->heads : gate,
            .beta = gate,
            .stride = run->row_width,
            .gate_stride = gates,
            .rows = sequence->row_count,
            .key_dim = shape->key_dim,
            .columns = left < MR_CPU_MIX_COLUMNS ? left : MR_CPU_MIX_COLUMNS,
            .s = state_of(run, sequence) + mr_mixer_window_floats(shape) +
                 head * mr_mixer_head_floats(shape) + column,
            .s_stride = mr_mixer_columns(shape),
            .fresh = sequence->context_tokens == 0,
            .doubled_beta = shape->doubled_beta,
            .decay = mixer->decay[head],
            .dt_bias = mixer->dt_bias[head],
            .skip = mixer->skip ? mixer->skip[head] : 0.0f,
            .dt_min = shape->dt_min,
            .dt_max = shape->dt_max};
        run->ops->mix->scan(&work);
    }
}

/* Items are the rows of all sequences, which follow each other. */
static void gate(void *context, size_t begin, size_t end)
{
    const struct mix_run *run = context;
    const struct mr_cpu_mixer *mixer = run->mixer;
    const size_t first = mixer->sequences[0].row_begin;
    const size_t size = mixer->bf16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t row = first + begin; row < first + end; row++) {
        const float *z = run->rows + row * run->row_width;
        const struct mr_cpu_mix_gate work = {.x = z + mr_mixer_value_at(run->shape, 0),
                                             .z = z,
                                             .norm = mixer->norm,
                                             .out = run->out + row * run->out_width * size,
                                             .width = (uint32_t)run->out_width,
                                             .norm_width = run->shape->norm_width,
                                             .epsilon = run->shape->norm_epsilon,
                                             .norm_after_gate = run->shape->norm_after_gate,
                                             .bf16 = mixer->bf16};
        run->ops->mix->gate(&work);
    }
}

void mr_cpu_mix(const struct mr_cpu_mixer *mixer, float *rows, const float *gates, void *out)
{
    const struct mr_mixer_shape *shape = &mixer->states->shape;
    struct mix_run run = {.mixer = mixer,
                          .shape = shape,
                          .ops = mr_cpu_row_ops_get(mixer->level),
                          .rows = rows,
                          .gates = gates,
                          .out = out,
                          .row_width = mr_mixer_row_width(shape),
                          .out_width = mr_mixer_out_width(shape),
                          .parts = (mr_mixer_channels(shape) + LANES - 1) / LANES};
    const size_t count = mixer->sequence_count;
    size_t row_count = 0;
    MR_ASSERT(mixer->layer < mixer->states->layer_count);
    for (size_t i = 0; i < count; i++)
        row_count += mixer->sequences[i].row_count;
    mr_parallel_for(count * run.parts, 32, convolve, &run);
    if (shape->kind == MR_MIXER_CONV) return;
    run.parts = shape->heads * head_parts(shape);
    mr_parallel_for(count * run.parts, 1, scan, &run);
    mr_parallel_for(row_count, GATE_GRAIN_FLOATS / run.out_width + 1, gate, &run);
}

/* ---- the gate of attention ---- */

#define GATE_PART 4096u /* numbers in an item of the parallel loop */

struct gate_run {
    const struct mr_cpu_ops *ops;
    unsigned char *x;
    const float *gates;
    size_t count;
    bool bf16;
};

static void gate_parts(void *context, size_t begin, size_t end)
{
    const struct gate_run *run = context;
    const size_t first = begin * GATE_PART, last = end * GATE_PART;
    const size_t size = run->bf16 ? sizeof(uint16_t) : sizeof(float);
    run->ops->mix->sigmoid(run->x + first * size, run->gates + first,
                           (last < run->count ? last : run->count) - first, run->bf16);
}

void mr_cpu_gate(void *x, const float *gates, size_t count, bool bf16)
{
    struct gate_run run = {mr_cpu_row_ops_get(MR_CPU_BEST), x, gates, count, bf16};
    mr_parallel_for((count + GATE_PART - 1) / GATE_PART, 1, gate_parts, &run);
}
