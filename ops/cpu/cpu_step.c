#include "ops/cpu/cpu_step.h"

#include "codec/check.h"
#include "ops/cpu_kernels/expert_kernels.h"
#include "ops/cpu_kernels/latent.h"
#include "ops/cpu_kernels/linear.h"
#include "ops/cpu_kernels/mixer.h"
#include "ops/cpu_kernels/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64u /* buffers are aligned to cache lines */

/* Position and token type of a row, for tables of embeddings. */
struct row_place {
    uint32_t position, type;
};

struct mr_step {
    struct mr_step_spec spec;
    bool bf16;
    unsigned char *memory;          /* of all buffers below */
    size_t bytes;                   /* size of memory */
    void *buffers[MR_BUFFER_COUNT]; /* [rows_max, width]: floats, bf16 or float numbers */
    struct mr_cpu_expert_buffers experts;
    void *scratch;                                  /* of linear layers */
    uint32_t *token_ids;                            /* [rows_max] */
    struct row_place *places;                       /* [rows_max] */
    struct mr_cpu_attention_sequence *sequences[2]; /* [sequences_max], by group of layers */
    struct mr_cpu_mixer_sequence *mixing;           /* [sequences_max] */
    uint32_t row_count, sequence_count;             /* staged */
    /* By row: the changes of its adapter by site, or NULL; its change of the current layer; A x. */
    struct mr_cpu_low_rank *const **adapters;
    struct mr_cpu_low_rank **changes;
    float *shrunk;
    bool adapted; /* some row has an adapter */
};

/* ---- buffers ---- */

/* Divides one allocation into buffers. When memory is NULL, only the sizes of the buffers are
 * summed. */
struct arena {
    unsigned char *memory;
    size_t used;
};

static void *arena_take(struct arena *arena, size_t count, size_t size)
{
    void *buffer = arena->memory ? arena->memory + arena->used : NULL;
    arena->used += (count * size + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return buffer;
}

static size_t number_bytes(const struct mr_step *step, enum mr_step_buffer buffer)
{
    bool numbers = buffer == MR_NORMED || buffer == MR_ATTENDED || buffer == MR_GATED ||
                   buffer == MR_MIXED || buffer == MR_QUERY_LATENT || buffer == MR_ATTENDED_LATENTS;
    return numbers && step->bf16 ? sizeof(uint16_t) : sizeof(float);
}

/* Sets the pointers of all buffers into `memory`; returns their total size in bytes. */
static size_t place_buffers(struct mr_step *step, unsigned char *memory)
{
    const struct mr_step_spec *spec = &step->spec;
    struct arena arena = {memory, 0};
    for (enum mr_step_buffer i = 0; i < MR_BUFFER_COUNT; i++) {
        size_t rows = i == MR_LOGITS ? spec->sequences_max : spec->rows_max;
        step->buffers[i] = arena_take(&arena, rows * spec->widths[i], number_bytes(step, i));
    }
    if (spec->expert_count > 0)
        step->experts.memory = arena_take(&arena, mr_cpu_expert_bytes(&step->experts), 1);
    step->scratch = arena_take(&arena, MR_CPU_LINEAR_SCRATCH_BYTES, 1);
    step->token_ids = arena_take(&arena, spec->rows_max, sizeof(*step->token_ids));
    step->places = arena_take(&arena, spec->rows_max, sizeof(*step->places));
    for (uint32_t i = 0; i < 2; i++)
        step->sequences[i] = arena_take(&arena, spec->sequences_max, sizeof(*step->sequences[i]));
    const size_t adapted = spec->rank_max > 0 ? spec->rows_max : 0;
    step->adapters = arena_take(&arena, adapted, sizeof(*step->adapters));
    step->changes = arena_take(&arena, adapted, sizeof(*step->changes));
    step->shrunk =
        arena_take(&arena, adapted * MR_CPU_LOW_RANK_WIDTH(spec->rank_max), sizeof(*step->shrunk));
    step->mixing = arena_take(&arena, spec->sequences_max, sizeof(*step->mixing));
    return arena.used;
}

enum mr_status mr_cpu_step_create(struct mr_compute *compute, struct mr_step **out,
                                  const struct mr_step_spec *spec, struct mr_error *err)
{
    *out = NULL;
    struct mr_step *step = calloc(1, sizeof(*step));
    if (!step) return mr_fail(err, MR_NOMEM, "no memory for the buffers of a step");
    step->spec = *spec;
    step->bf16 = compute->number == MR_NUMBER_BF16;
    step->experts = (struct mr_cpu_expert_buffers){.rows_max = spec->rows_max,
                                                   .expert_count = spec->expert_count,
                                                   .top_k = spec->experts_per_row,
                                                   .hidden_size = spec->widths[MR_RESIDUAL],
                                                   .ffn_size = spec->expert_ffn_size,
                                                   .rank_max = spec->rank_max,
                                                   .bf16 = step->bf16};
    step->bytes = place_buffers(step, NULL);
    step->memory = aligned_alloc(LINE_BYTES, step->bytes);
    if (!step->memory) {
        free(step);
        return mr_fail(err, MR_NOMEM, "no memory for the buffers of a step");
    }
    place_buffers(step, step->memory);
    *out = step;
    return MR_OK;
}

void mr_cpu_step_destroy(struct mr_step *step)
{
    if (!step) return;
    free(step->memory);
    free(step);
}

uint64_t mr_cpu_step_bytes(const struct mr_step *step)
{
    return step->bytes;
}

/* ---- staging ---- */

/* Sets the adapters of the rows of a sequence. */
static void stage_adapter(struct mr_step *step, const struct mr_step_sequence *sequence)
{
    const struct mr_adapter *adapter = sequence->adapter;
    MR_ASSERT(!adapter || step->spec.rank_max > 0);
    if (step->spec.rank_max == 0) return;
    for (uint32_t i = 0; i < sequence->row_count; i++)
        step->adapters[sequence->row_begin + i] =
            adapter ? (struct mr_cpu_low_rank *const *)adapter->sites : NULL;
    step->adapted = step->adapted || adapter;
}

/* Returns the changes of the first `rows` rows at a site. */
static struct mr_cpu_adapted adapted_at(const struct mr_step *step, uint32_t site, uint32_t rows)
{
    if (!step->adapted || site == 0) return (struct mr_cpu_adapted){0};
    for (uint32_t row = 0; row < rows; row++)
        step->changes[row] = step->adapters[row] ? step->adapters[row][site] : NULL;
    return (struct mr_cpu_adapted){step->changes, step->shrunk, 0};
}

static void stage_sequences(struct mr_step *step, const struct mr_step_sequence *sequences,
                            uint32_t count)
{
    MR_ASSERT(count <= step->spec.sequences_max);
    step->adapted = false;
    for (uint32_t i = 0; i < count; i++) {
        stage_adapter(step, &sequences[i]);
        step->mixing[i] =
            (struct mr_cpu_mixer_sequence){sequences[i].row_begin, sequences[i].row_count,
                                           sequences[i].context_tokens, sequences[i].state};
        for (uint32_t group = 0; group < 2; group++)
            step->sequences[group][i] = (struct mr_cpu_attention_sequence){
                sequences[i].row_begin, sequences[i].row_count, sequences[i].context_tokens,
                sequences[i].blocks[group], sequences[i].attends};
    }
    step->sequence_count = count;
}

void mr_cpu_step_stage(struct mr_step *step, const uint32_t *token_ids, uint32_t rows,
                       const struct mr_step_sequence *sequences, uint32_t count,
                       const struct mr_fed_rows *fed)
{
    MR_ASSERT(rows <= step->spec.rows_max && fed == NULL);
    memcpy(step->token_ids, token_ids, rows * sizeof(*token_ids));
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < sequences[i].row_count; k++) {
            const uint32_t row = sequences[i].row_begin + k, at = sequences[i].context_tokens + k;
            const uint32_t second = sequences[i].second_begin;
            step->places[row] = (struct row_place){at, second > 0 && at >= second};
        }
    step->row_count = rows;
    stage_sequences(step, sequences, count);
}

void mr_cpu_step_keep(struct mr_step *step, const uint32_t *rows,
                      const struct mr_step_sequence *sequences, uint32_t count)
{
    static const enum mr_step_buffer moved[] = {MR_RESIDUAL, MR_NORMED, MR_QKV, MR_MIXED};
    uint32_t row_count = 0;
    for (uint32_t i = 0; i < count; i++)
        row_count += sequences[i].row_count;
    for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
        size_t bytes = step->spec.widths[moved[i]] * number_bytes(step, moved[i]);
        char *buffer = step->buffers[moved[i]];
        for (uint32_t kept = 0; kept < row_count; kept++)
            memmove(buffer + kept * bytes, buffer + rows[kept] * bytes, bytes);
    }
    step->row_count = row_count;
    stage_sequences(step, sequences, count);
}

/* ---- rows ---- */

struct embedding_work {
    const struct mr_step *step;
    const struct mr_cpu_linear *table;
    float scale;
    struct mr_cpu_adapted changes;
};

static void embed_rows(void *context, size_t begin, size_t end)
{
    const struct embedding_work *work = context;
    const uint32_t width = work->step->spec.widths[MR_RESIDUAL];
    for (size_t row = begin; row < end; row++) {
        float *to = (float *)work->step->buffers[MR_RESIDUAL] + row * width;
        mr_cpu_linear_row(work->table, work->step->token_ids[row], to);
        if (work->changes.layers && work->changes.layers[row])
            mr_cpu_low_rank_embed(work->changes.layers[row], work->step->token_ids[row], to);
        for (uint32_t i = 0; work->scale != 1.0f && i < width; i++)
            to[i] *= work->scale;
    }
}

void mr_cpu_step_embed(struct mr_step *step, const struct mr_linear *table, float scale)
{
    struct embedding_work work = {step, (const struct mr_cpu_linear *)table, scale,
                                  adapted_at(step, MR_SITE_EMBEDDING, step->row_count)};
    mr_parallel_for(step->row_count, 16, embed_rows, &work);
}

struct position_work {
    const struct mr_step *step;
    const float *table;
    uint32_t types_at;
};

static void add_positions(void *context, size_t begin, size_t end)
{
    const struct position_work *work = context;
    const uint32_t width = work->step->spec.widths[MR_RESIDUAL];
    for (size_t row = begin; row < end; row++) {
        const struct row_place place = work->step->places[row];
        const uint32_t most = work->types_at - 1;
        const uint32_t position = place.position < most ? place.position : most;
        const size_t at = (size_t)place.type * work->types_at + position;
        float *to = (float *)work->step->buffers[MR_RESIDUAL] + row * width;
        for (uint32_t i = 0; i < width; i++)
            to[i] += work->table[at * width + i];
    }
}

void mr_cpu_step_embed_positions(struct mr_step *step, const struct mr_vector *table,
                                 uint32_t types_at)
{
    struct position_work work = {step, (const float *)table, types_at};
    mr_parallel_for(step->row_count, 16, add_positions, &work);
}

static struct mr_cpu_norm norm_of(const struct mr_step *step, const struct mr_norm *norm)
{
    return (struct mr_cpu_norm){.weight = (const float *)norm->weight,
                                .bias = (const float *)norm->bias,
                                .epsilon = norm->epsilon,
                                .width = step->spec.widths[MR_RESIDUAL],
                                .centered = norm->centered,
                                .bf16 = step->bf16};
}

void mr_cpu_step_norm(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    if (!norm) {
        mr_cpu_convert(step->buffers[MR_RESIDUAL], rows, step->spec.widths[MR_RESIDUAL], step->bf16,
                       step->buffers[MR_NORMED]);
        return;
    }
    struct mr_cpu_norm ours = norm_of(step, norm);
    mr_cpu_norm(&ours, step->buffers[MR_RESIDUAL], rows, step->buffers[MR_NORMED]);
}

void mr_cpu_step_norm_residual(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    struct mr_cpu_norm ours = norm_of(step, norm);
    ours.bf16 = false; /* the residual stream is float */
    mr_cpu_norm(&ours, step->buffers[MR_RESIDUAL], rows, step->buffers[MR_RESIDUAL]);
}

void mr_cpu_step_norm_add(struct mr_step *step, const struct mr_norm *norm, uint32_t rows)
{
    struct mr_cpu_norm ours = norm_of(step, norm);
    mr_cpu_norm_add(&ours, step->buffers[MR_BRANCH], rows, 1.0f, step->buffers[MR_RESIDUAL]);
}

void mr_cpu_step_softcap(struct mr_step *step, float cap, uint32_t rows)
{
    mr_cpu_softcap(step->buffers[MR_LOGITS], (size_t)rows * step->spec.widths[MR_LOGITS], cap,
                   MR_CPU_BEST);
}

/* ---- linear layers and experts ---- */

static enum mr_cpu_epilogue epilogue_of(enum mr_epilogue epilogue)
{
    static const enum mr_cpu_epilogue ours[] = {
        [MR_STORE] = MR_CPU_STORE_F32,
        [MR_ADD] = MR_CPU_ADD_F32,
        [MR_SILU_MUL] = MR_CPU_SILU_MUL,
        [MR_GELU_MUL] = MR_CPU_GELU_MUL,
        [MR_GELU_TANH_MUL] = MR_CPU_GELU_TANH_MUL,
        [MR_SWIGLU_OAI_MUL] = MR_CPU_SWIGLU_OAI_MUL,
        [MR_GELU] = MR_CPU_GELU,
        [MR_GELU_TANH] = MR_CPU_GELU_TANH,
        [MR_SILU] = MR_CPU_SILU,
        [MR_RELU] = MR_CPU_RELU,
        [MR_RELU2] = MR_CPU_RELU2,
        [MR_XIELU] = MR_CPU_XIELU,
    };
    return ours[epilogue];
}

void mr_cpu_step_linear(struct mr_step *step, const struct mr_linear *linear,
                        enum mr_step_buffer from, uint32_t rows, enum mr_epilogue epilogue,
                        enum mr_step_buffer to)
{
    const struct mr_cpu_linear *ours = (const struct mr_cpu_linear *)linear;
    const struct mr_cpu_linear_call call = {.x = step->buffers[from],
                                            .rows = rows,
                                            .epilogue = epilogue_of(epilogue),
                                            .out = step->buffers[to],
                                            .scratch = step->scratch,
                                            .adapted = adapted_at(step, ours->site, rows)};
    mr_cpu_linear_call(ours, &call);
}

static struct mr_cpu_routing routing_of(const struct mr_router *router)
{
    return (struct mr_cpu_routing){.expert_count = router->count,
                                   .top_k = router->top_k,
                                   .sigmoid = router->sigmoid,
                                   .normalize = router->normalize,
                                   .group_pairs = router->group_pairs,
                                   .group_count = router->group_count,
                                   .groups_kept = router->groups_kept,
                                   .bias = (const float *)router->bias,
                                   .scale = router->scale,
                                   .sum_min = router->sum_min,
                                   .mixer_margin = router->mixer_margin};
}

void mr_cpu_step_experts(struct mr_step *step, const struct mr_expert_layer *layer, uint32_t rows)
{
    const struct mr_cpu_expert_layer ours = {.gate_up =
                                                 (struct mr_cpu_linear *const *)layer->gate_up,
                                             .down = (struct mr_cpu_linear *const *)layer->down,
                                             .routing = routing_of(&layer->router),
                                             .activation = epilogue_of(layer->activation),
                                             .adapters = step->adapted ? step->adapters : NULL};
    float *to = step->buffers[layer->to];
    if (layer->clear) memset(to, 0, (size_t)rows * step->spec.widths[layer->to] * sizeof(*to));
    mr_cpu_experts_run(&ours, &step->experts, step->buffers[MR_NORMED], step->buffers[MR_ROUTING],
                       rows, to);
}

void mr_cpu_step_add_switched(struct mr_step *step, const struct mr_linear *linear, uint32_t rows)
{
    float *switches = step->buffers[MR_SWITCHES];
    for (uint32_t row = 0; row < rows; row++)
        switches[row] = 1.0f / (1.0f + expf(-switches[row]));
    const struct mr_cpu_linear *ours = (const struct mr_cpu_linear *)linear;
    const struct mr_cpu_linear_call call = {.x = step->buffers[MR_GATED],
                                            .rows = rows,
                                            .epilogue = MR_CPU_ADD_F32,
                                            .out = step->buffers[MR_RESIDUAL],
                                            .scratch = step->scratch,
                                            .factors = switches,
                                            .adapted = adapted_at(step, ours->site, rows)};
    mr_cpu_linear_call(ours, &call);
}

/* ---- attention ---- */

static struct mr_cpu_attention_args attention_of(const struct mr_step *step,
                                                 const struct mr_attention *attention)
{
    return (struct mr_cpu_attention_args){.layer = attention->layer,
                                          .head_count = attention->head_count,
                                          .window = attention->window,
                                          .scale = attention->scale,
                                          .softcap = attention->softcap,
                                          .sinks = (const float *)attention->sinks,
                                          .sequences = step->sequences[attention->group],
                                          .sequence_count = step->sequence_count};
}

void mr_cpu_step_rope_write(struct mr_step *step, const struct mr_attention *attention)
{
    struct mr_cpu_attention_args ours = attention_of(step, attention);
    struct mr_cpu_rope_args rope = {.rope = (const struct mr_cpu_rope *)attention->rope,
                                    .q_norm = (const float *)attention->q_norm,
                                    .k_norm = (const float *)attention->k_norm,
                                    .norm_epsilon = attention->norm_epsilon,
                                    .norm_width = attention->norm_width,
                                    .norm_whole = attention->norm_whole,
                                    .norm_centered = attention->norm_centered,
                                    .norm_after = attention->norm_after,
                                    .clip = attention->clip};
    mr_cpu_rope_write((struct mr_cpu_kv *)attention->kv, &ours, &rope, step->buffers[MR_QKV]);
}

void mr_cpu_step_attend(struct mr_step *step, const struct mr_attention *attention)
{
    struct mr_cpu_attention_args ours = attention_of(step, attention);
    mr_cpu_attention((struct mr_cpu_kv *)attention->kv, &ours, step->buffers[MR_QKV],
                     step->buffers[MR_ATTENDED]);
}

/* ---- latent attention ---- */

static struct mr_cpu_latent latent_of(const struct mr_latent *latent)
{
    return (struct mr_cpu_latent){.shape = latent->shape,
                                  .head_count = latent->attention.head_count,
                                  .rope = (const struct mr_cpu_rope *)latent->attention.rope,
                                  .norm = (const float *)latent->norm,
                                  .keys = (const struct mr_cpu_linear *)latent->keys,
                                  .values = (const struct mr_cpu_linear *)latent->values};
}

void mr_cpu_step_norm_queries(struct mr_step *step, const struct mr_latent *latent, uint32_t rows)
{
    const struct mr_cpu_norm norm = {.weight = (const float *)latent->query_norm,
                                     .epsilon = latent->shape.norm_epsilon,
                                     .width = latent->shape.query_rank,
                                     .stride = mr_latent_row(&latent->shape),
                                     .bf16 = step->bf16};
    mr_cpu_norm(&norm, step->buffers[MR_LATENTS], rows, step->buffers[MR_QUERY_LATENT]);
}

void mr_cpu_step_latent_write(struct mr_step *step, const struct mr_latent *latent)
{
    const struct mr_cpu_attention_args attention = attention_of(step, &latent->attention);
    const struct mr_cpu_latent ours = latent_of(latent);
    mr_cpu_latent_write((struct mr_cpu_kv *)latent->attention.kv, &attention, &ours,
                        step->buffers[MR_QKV], step->buffers[MR_LATENTS]);
}

void mr_cpu_step_latent_attend(struct mr_step *step, const struct mr_latent *latent)
{
    const struct mr_cpu_attention_args attention = attention_of(step, &latent->attention);
    const struct mr_cpu_latent ours = latent_of(latent);
    mr_cpu_latent_absorb(&ours, step->buffers[MR_QKV], step->row_count, step->buffers[MR_ABSORBED]);
    mr_cpu_attention((struct mr_cpu_kv *)latent->attention.kv, &attention,
                     step->buffers[MR_ABSORBED], step->buffers[MR_ATTENDED_LATENTS]);
    mr_cpu_latent_values(&ours, step->buffers[MR_ATTENDED_LATENTS], step->row_count,
                         step->buffers[MR_ATTENDED]);
}

/* ---- recurrent layers ---- */

void mr_cpu_step_mix(struct mr_step *step, const struct mr_mixer *mixer)
{
    const struct mr_cpu_mixer ours = {.states = (struct mr_cpu_states *)mixer->states,
                                      .layer = mixer->layer,
                                      .taps = (const float *)mixer->taps,
                                      .bias = (const float *)mixer->bias,
                                      .decay = (const float *)mixer->decay,
                                      .dt_bias = (const float *)mixer->dt_bias,
                                      .skip = (const float *)mixer->skip,
                                      .norm = (const float *)mixer->norm,
                                      .sequences = step->mixing,
                                      .sequence_count = step->sequence_count,
                                      .bf16 = step->bf16};
    mr_cpu_mix(&ours, step->buffers[MR_MIXING], step->buffers[MR_MIX_GATES],
               step->buffers[MR_MIXED]);
}

void mr_cpu_step_gate_attended(struct mr_step *step, uint32_t rows)
{
    mr_cpu_gate(step->buffers[MR_ATTENDED], step->buffers[MR_MIXING],
                (size_t)rows * step->spec.widths[MR_ATTENDED], step->bf16);
}

/* ---- results ---- */

enum mr_status mr_cpu_step_finish(struct mr_step *step, struct mr_error *err)
{
    (void)step;
    (void)err;
    return MR_OK;
}

static float normed_at(const struct mr_step *step, size_t index)
{
    if (!step->bf16) return ((const float *)step->buffers[MR_NORMED])[index];
    const uint32_t bits = (uint32_t)((const uint16_t *)step->buffers[MR_NORMED])[index] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

void mr_cpu_step_sum_normed(struct mr_step *step, uint32_t row, uint32_t count, float *out)
{
    const uint32_t width = step->spec.widths[MR_NORMED];
    MR_ASSERT(row + count <= step->spec.rows_max);
    for (uint32_t i = 0; i < width; i++) {
        double sum = 0;
        for (uint32_t k = row; k < row + count; k++)
            sum += (double)normed_at(step, (size_t)k * width + i);
        out[i] = (float)sum;
    }
}

const float *mr_cpu_step_logits(struct mr_step *step, uint32_t row, struct mr_error *err)
{
    (void)err;
    return (const float *)step->buffers[MR_LOGITS] + (size_t)row * step->spec.widths[MR_LOGITS];
}
