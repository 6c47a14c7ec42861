#include "ops/cpu/cpu_backend.h"

#include "codec/check.h"
#include "ops/cpu/cpu_step.h"
#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/low_rank.h"
#include "ops/cpu_kernels/mixer.h"

#include <stdlib.h>
#include <string.h>

/* ---- the device ---- */

static enum mr_status device_open(struct mr_compute **out, struct mr_device device,
                                  enum mr_number number, struct mr_error *err)
{
    *out = NULL;
    if (device.kind != MR_DEVICE_CPU)
        return mr_fail(err, MR_BAD_CONFIG, "the backend cpu computes on the device cpu only");
    if (!mr_cpu_backend.numbers[number])
        return mr_fail(err, MR_BAD_CONFIG, "the backend cpu computes in bf16 or f32 only");
    struct mr_compute *compute = calloc(1, sizeof(*compute));
    if (!compute) return mr_fail(err, MR_NOMEM, "no memory for a device");
    *compute = (struct mr_compute){&mr_cpu_backend, number};
    *out = compute;
    return MR_OK;
}

static void device_close(struct mr_compute *compute)
{
    free(compute);
}

static uint64_t free_bytes(const struct mr_compute *compute)
{
    (void)compute;
    return 0;
}

static uint32_t steps_ahead(const struct mr_compute *compute)
{
    (void)compute;
    return 0;
}

static const char *numerics(const struct mr_compute *compute)
{
    (void)compute;
    return mr_cpu_level_name(mr_cpu_level(MR_CPU_BEST));
}

/* ---- weights ---- */

static enum mr_status vector_create(struct mr_compute *compute, struct mr_vector **out,
                                    const float *numbers, uint32_t count, struct mr_error *err)
{
    (void)compute;
    float *copy = malloc(count * sizeof(*copy));
    *out = NULL;
    if (!copy) return mr_fail(err, MR_NOMEM, "no memory for a vector of %u numbers", count);
    memcpy(copy, numbers, count * sizeof(*copy));
    *out = (struct mr_vector *)copy;
    return MR_OK;
}

static void vector_destroy(struct mr_vector *vector)
{
    free(vector);
}

static enum mr_status rope_create(struct mr_compute *compute, struct mr_rope **out,
                                  const struct mr_rope_spec *spec, struct mr_error *err)
{
    (void)compute;
    struct mr_cpu_rope *rope = malloc(sizeof(*rope));
    *out = NULL;
    if (!rope) return mr_fail(err, MR_NOMEM, "no memory for a rotary embedding");
    *rope = (struct mr_cpu_rope){.cos = spec->cos,
                                 .sin = spec->sin,
                                 .q_scales = spec->q_scales,
                                 .rotary_dim = spec->rotary_dim};
    *out = (struct mr_rope *)rope;
    return MR_OK;
}

static void rope_destroy(struct mr_rope *rope)
{
    free(rope);
}

static enum mr_status linear_create(struct mr_compute *compute, struct mr_linear **out,
                                    const struct mr_linear_spec *spec, struct mr_error *err)
{
    struct mr_cpu_linear_spec ours = {.out_size = spec->out_size,
                                      .in_size = spec->in_size,
                                      .bf16 = compute->number == MR_NUMBER_BF16,
                                      .source = spec->source,
                                      .source_context = spec->source_context,
                                      .band_count = spec->band_count,
                                      .stored = spec->stored,
                                      .bias = spec->bias,
                                      .curve = spec->curve,
                                      .scale = spec->scale,
                                      .site = spec->site};
    memcpy(ours.bands, spec->bands, sizeof(ours.bands));
    struct mr_cpu_linear *linear;
    enum mr_status status = mr_cpu_linear_create(&linear, &ours, err);
    *out = (struct mr_linear *)linear;
    return status;
}

static void linear_destroy(struct mr_linear *linear)
{
    mr_cpu_linear_destroy((struct mr_cpu_linear *)linear);
}

static size_t linear_bytes(const struct mr_linear *linear)
{
    return mr_cpu_linear_bytes((const struct mr_cpu_linear *)linear);
}

static enum mr_status low_rank_create(struct mr_compute *compute, struct mr_low_rank **out,
                                      const struct mr_low_rank_spec *spec, struct mr_error *err)
{
    const struct mr_cpu_low_rank_spec ours = {.rank = spec->rank,
                                              .in_size = spec->in_size,
                                              .out_size = spec->out_size,
                                              .a = spec->a,
                                              .b = spec->b,
                                              .bf16 = compute->number == MR_NUMBER_BF16,
                                              .table = spec->table};
    struct mr_cpu_low_rank *low_rank;
    enum mr_status status = mr_cpu_low_rank_create(&low_rank, &ours, err);
    *out = (struct mr_low_rank *)low_rank;
    return status;
}

static void low_rank_destroy(struct mr_low_rank *low_rank)
{
    mr_cpu_low_rank_destroy((struct mr_cpu_low_rank *)low_rank);
}

static size_t low_rank_bytes(const struct mr_low_rank *low_rank)
{
    return mr_cpu_low_rank_bytes((const struct mr_cpu_low_rank *)low_rank);
}

static const struct mr_low_rank_functions low_rank_functions = {low_rank_create, low_rank_destroy,
                                                                low_rank_bytes};

/* ---- KV pool ---- */

static struct mr_cpu_kv_spec kv_spec_of(const struct mr_kv_spec *spec)
{
    return (struct mr_cpu_kv_spec){.layer_count = spec->layer_count,
                                   .kv_head_count = spec->kv_head_count,
                                   .head_dim = spec->head_dim,
                                   .block_count = spec->block_count,
                                   .value_dim = spec->value_dim,
                                   .bf16 = spec->number == MR_NUMBER_BF16,
                                   .int8 = spec->int8};
}

static size_t kv_block_bytes(const struct mr_kv_spec *spec)
{
    struct mr_cpu_kv_spec ours = kv_spec_of(spec);
    return mr_cpu_kv_block_bytes(&ours);
}

static enum mr_status kv_create(struct mr_compute *compute, struct mr_kv **out,
                                const struct mr_kv_spec *spec, struct mr_error *err)
{
    (void)compute;
    struct mr_cpu_kv_spec ours = kv_spec_of(spec);
    struct mr_cpu_kv *kv;
    enum mr_status status = mr_cpu_kv_create(&kv, &ours, err);
    *out = (struct mr_kv *)kv;
    return status;
}

static void kv_destroy(struct mr_kv *kv)
{
    mr_cpu_kv_destroy((struct mr_cpu_kv *)kv);
}

static bool kv_populate(struct mr_kv *kv)
{
    return mr_cpu_kv_populate((struct mr_cpu_kv *)kv);
}

static void kv_copy(struct mr_kv *kv, uint32_t from, uint32_t to, uint32_t token_count)
{
    mr_cpu_kv_copy((struct mr_cpu_kv *)kv, from, to, token_count);
}

static size_t kv_stored_bytes(const struct mr_kv *kv, uint32_t token_count, bool int8)
{
    const struct mr_cpu_kv *ours = (const struct mr_cpu_kv *)kv;
    return int8 ? mr_cpu_kv_int8_bytes(ours, token_count)
                : mr_cpu_kv_export_bytes(ours, token_count);
}

static void *kv_bytes_of(const struct mr_kv *kv, uint32_t block)
{
    return mr_cpu_kv_bytes_of((const struct mr_cpu_kv *)kv, block);
}

static bool kv_export(const struct mr_kv *kv, const struct mr_kv_span *span, void *bytes)
{
    const struct mr_cpu_kv *ours = (const struct mr_cpu_kv *)kv;
    if (span->int8)
        return mr_cpu_kv_int8_export(ours, span->block, span->first, span->token_count, bytes);
    mr_cpu_kv_export(ours, span->block, span->first, span->token_count, bytes);
    return true;
}

static void kv_import(struct mr_kv *kv, const struct mr_kv_span *span, const void *bytes)
{
    struct mr_cpu_kv *ours = (struct mr_cpu_kv *)kv;
    if (span->int8)
        mr_cpu_kv_int8_import(ours, span->block, span->first, span->token_count, bytes);
    else
        mr_cpu_kv_import(ours, span->block, span->first, span->token_count, bytes);
}

/* ---- state pool ---- */

static enum mr_status states_create(struct mr_compute *compute, struct mr_states **out,
                                    const struct mr_mixer_shape *shape, uint32_t layer_count,
                                    uint32_t slot_count, struct mr_error *err)
{
    (void)compute;
    struct mr_cpu_states *states;
    enum mr_status status = mr_cpu_states_create(&states, shape, layer_count, slot_count, err);
    *out = (struct mr_states *)states;
    return status;
}

static void states_destroy(struct mr_states *states)
{
    mr_cpu_states_destroy((struct mr_cpu_states *)states);
}

static void states_copy(struct mr_states *states, uint32_t from, uint32_t to)
{
    const struct mr_cpu_states *ours = (const struct mr_cpu_states *)states;
    memcpy(mr_cpu_states_slot(ours, to), mr_cpu_states_slot(ours, from),
           ours->slot_floats * sizeof(float));
}

static void states_export(const struct mr_states *states, uint32_t slot, void *bytes)
{
    const struct mr_cpu_states *ours = (const struct mr_cpu_states *)states;
    memcpy(bytes, mr_cpu_states_slot(ours, slot), ours->slot_floats * sizeof(float));
}

static void states_import(struct mr_states *states, uint32_t slot, const void *bytes)
{
    const struct mr_cpu_states *ours = (const struct mr_cpu_states *)states;
    memcpy(mr_cpu_states_slot(ours, slot), bytes, ours->slot_floats * sizeof(float));
}

static const struct mr_mixer_ops mixers = {.states_create = states_create,
                                           .states_destroy = states_destroy,
                                           .states_copy = states_copy,
                                           .states_export = states_export,
                                           .states_import = states_import,
                                           .mix = mr_cpu_step_mix,
                                           .gate_attended = mr_cpu_step_gate_attended};

static const struct mr_latent_ops latent = {.norm_queries = mr_cpu_step_norm_queries,
                                            .write = mr_cpu_step_latent_write,
                                            .attend = mr_cpu_step_latent_attend};

/* ---- the table ---- */

const struct mr_backend mr_cpu_backend = {
    .name = "cpu",
    .numbers = {[MR_NUMBER_F32] = true, [MR_NUMBER_BF16] = true},
    .integer_weights = true,
    .int8_kv = true,
    .kv_layout = "layer-head-panels16",
    .kv_layout_sliding = "full-sliding-layer-head-panels16",
    .open = device_open,
    .close = device_close,
    .free_bytes = free_bytes,
    .steps_ahead = steps_ahead,
    .numerics = numerics,
    .vector_create = vector_create,
    .vector_destroy = vector_destroy,
    .rope_create = rope_create,
    .rope_destroy = rope_destroy,
    .linear_create = linear_create,
    .linear_destroy = linear_destroy,
    .linear_bytes = linear_bytes,
    .low_rank = &low_rank_functions,
    .kv_block_bytes = kv_block_bytes,
    .kv_create = kv_create,
    .kv_destroy = kv_destroy,
    .kv_populate = kv_populate,
    .kv_copy = kv_copy,
    .kv_stored_bytes = kv_stored_bytes,
    .kv_bytes_of = kv_bytes_of,
    .kv_export = kv_export,
    .kv_import = kv_import,
    .step_create = mr_cpu_step_create,
    .step_destroy = mr_cpu_step_destroy,
    .step_bytes = mr_cpu_step_bytes,
    .stage = mr_cpu_step_stage,
    .keep = mr_cpu_step_keep,
    .embed = mr_cpu_step_embed,
    .embed_positions = mr_cpu_step_embed_positions,
    .norm_residual = mr_cpu_step_norm_residual,
    .norm = mr_cpu_step_norm,
    .norm_add = mr_cpu_step_norm_add,
    .linear = mr_cpu_step_linear,
    .rope_write = mr_cpu_step_rope_write,
    .attend = mr_cpu_step_attend,
    .mixers = &mixers,
    .latent = &latent,
    .experts = mr_cpu_step_experts,
    .add_switched = mr_cpu_step_add_switched,
    .softcap = mr_cpu_step_softcap,
    .finish = mr_cpu_step_finish,
    .sum_normed = mr_cpu_step_sum_normed,
    .logits = mr_cpu_step_logits,
};
