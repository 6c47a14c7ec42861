#include "codec/check.h"
#include "ops/cpu_kernels/kv_pool.h"
#include "ops/cpu_kernels/latent.h"
#include "ops/cpu_kernels/parallel.h"

#include <string.h>

/* With fewer rows for each thread a parallel loop costs more than it saves. */
#define ROPE_GRAIN_ROWS 8u
#define KEY_DIM_MAX     MR_CPU_KEY_DIM_MAX

struct rope_run {
    struct mr_cpu_kv *kv;
    const struct mr_cpu_attention_args *attention;
    const struct mr_cpu_rope_args *args;
    float *qkv;
    /* Of latent attention: qkv then has only q, and args is NULL. */
    const struct mr_cpu_latent *latent;
    float *latents;
};

/* Applies the norm with these weights to `heads` heads in place. */
static void norm_heads(const struct rope_run *run, const float *weight, uint32_t heads, float *x)
{
    const struct mr_cpu_rope_args *args = run->args;
    const uint32_t dim = run->kv->spec.head_dim, padding = dim - args->norm_width;
    struct mr_cpu_norm norm = {.weight = weight,
                               .epsilon = args->norm_epsilon,
                               .width = args->norm_width,
                               .centered = args->norm_centered};
    if (args->norm_whole) {
        norm.width = heads * dim;
        norm.padding = heads * padding;
        heads = 1;
    }
    for (uint32_t head = 0; head < heads; head++) {
        norm.weight = weight + head * dim;
        run->kv->ops->norm_row(&norm, x + head * dim, x + head * dim);
    }
}

static void rotate_heads(const struct rope_run *run, uint32_t position, uint32_t heads, float *x)
{
    const struct mr_cpu_rope *rope = run->args->rope;
    const uint32_t half = rope->rotary_dim / 2;
    const size_t at = (size_t)position * half;
    for (uint32_t head = 0; head < heads; head++)
        run->kv->ops->rotate(x + head * run->kv->spec.head_dim, rope->cos + at, rope->sin + at,
                             half);
}

static void clip(const struct rope_run *run, uint32_t heads, float *x)
{
    const float limit = run->args->clip;
    for (uint32_t i = 0; limit > 0.0f && i < heads * run->kv->spec.head_dim; i++)
        x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

/* Applies the norm and the rotary embedding to `heads` heads of one row in place. */
static void prepare_heads(const struct rope_run *run, const float *norm_weight, uint32_t position,
                          uint32_t heads, float *x)
{
    const bool after = run->args->norm_after;
    if (norm_weight && !after) norm_heads(run, norm_weight, heads, x);
    clip(run, heads, x);
    if (run->args->rope) rotate_heads(run, position, heads, x);
    if (norm_weight && after) norm_heads(run, norm_weight, heads, x);
}

static void scale_q(const struct rope_run *run, uint32_t position, uint32_t heads, float *q)
{
    const struct mr_cpu_rope *rope = run->args->rope;
    if (!rope || !rope->q_scales) return;
    for (uint32_t i = 0; i < heads * run->kv->spec.head_dim; i++)
        q[i] *= rope->q_scales[position];
}

/* Writes the key of one token: its words are one column of a panel, MR_PANEL_BYTES apart. */
static void write_key(const struct mr_cpu_kv *kv, unsigned char *keys, uint32_t token,
                      const void *head)
{
    unsigned char *to = keys + mr_cpu_kv_key_at(kv, token, 0);
    const uint32_t words = kv->spec.head_dim / (kv->spec.bf16 ? 2 : 1);
    for (uint32_t i = 0; i < words; i++)
        memcpy(to + (size_t)i * MR_PANEL_BYTES, (const uint32_t *)head + i, 4);
}

/* Writes the value (V) of one token: 16 of its numbers go into one row of each panel; two tokens
 * share a bf16 word. */
static void write_value(const struct mr_cpu_kv *kv, unsigned char *values, uint32_t token,
                        const void *head)
{
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim += 16) {
        unsigned char *to = values + mr_cpu_kv_value_at(kv, token, dim);
        if (!kv->spec.bf16) {
            memcpy(to, (const float *)head + dim, MR_PANEL_BYTES);
            continue;
        }
        for (uint32_t i = 0; i < 16; i++)
            memcpy(to + i * 4u, (const uint16_t *)head + dim + i, 2);
    }
}

/* Quantizes the key and the value of one token and writes both with their scales (kv_pool.h). k, v:
 * the token's numbers in one head. */
static void write_int8(const struct mr_cpu_kv *kv, unsigned char *keys, uint32_t token,
                       const float *k, const float *v)
{
    const uint32_t dim = kv->spec.head_dim;
    unsigned char *values = keys + kv->half_bytes;
    int8_t ready[KEY_DIM_MAX];
    mr_cpu_kv_scales(kv, keys)[token] = kv->ops->quantize(k, dim, ready);
    for (uint32_t i = 0; i < dim; i++)
        keys[mr_cpu_kv_key_at(kv, token, i)] = (unsigned char)ready[i];
    if (mr_cpu_kv_shares_keys(kv)) return;
    mr_cpu_kv_scales(kv, values)[token] = kv->ops->quantize(v, dim, ready);
    for (uint32_t i = 0; i < dim; i += 16)
        memcpy(values + mr_cpu_kv_value_at(kv, token, i), ready + i, 16);
}

/* Zeroes the value (V) of the token after `token` if both share a bf16 word, for the reason in
 * kv_pool.h. */
static void clear_next(const struct mr_cpu_kv *kv, unsigned char *values, uint32_t token)
{
    if (!kv->spec.bf16 || token % 2 != 0) return;
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim++)
        memset(values + mr_cpu_kv_value_at(kv, token + 1, dim), 0, 2);
}

static void write_row(const struct rope_run *run, uint32_t row,
                      const struct mr_cpu_attention_sequence *sequence)
{
    const struct mr_cpu_kv *kv = run->kv;
    const uint32_t dim = kv->spec.head_dim, kv_heads = kv->spec.kv_head_count;
    const uint32_t heads = run->attention->head_count;
    const uint32_t position = sequence->context_tokens + row - sequence->row_begin;
    const uint32_t block = sequence->blocks[position / MR_BLOCK_TOKENS];
    const uint32_t token = position % MR_BLOCK_TOKENS;
    float *q = run->qkv + (size_t)row * (heads + 2 * kv_heads) * dim;
    float *k = q + heads * dim, *v = k + kv_heads * dim;
    MR_ASSERT(block < kv->spec.block_count);
    prepare_heads(run, run->args->q_norm, position, heads, q);
    scale_q(run, position, heads, q);
    clip(run, kv_heads, v);
    prepare_heads(run, run->args->k_norm, position, kv_heads, k);
    _Alignas(64) float ready[KEY_DIM_MAX];
    for (uint32_t head = 0; head < kv_heads; head++) {
        unsigned char *keys = mr_cpu_kv_keys(kv, block, run->attention->layer, head);
        unsigned char *values = keys + kv->half_bytes;
        if (kv->spec.int8) {
            write_int8(kv, keys, token, k + head * dim, v + head * dim);
            continue;
        }
        kv->ops->convert(k + head * dim, 1.0f, dim, kv->spec.bf16, ready);
        write_key(kv, keys, token, ready);
        kv->ops->convert(v + head * dim, 1.0f, dim, kv->spec.bf16, ready);
        write_value(kv, values, token, ready);
        if (row + 1 == sequence->row_begin + sequence->row_count) clear_next(kv, values, token);
    }
}

/* ---- latent attention ---- */

/* Rotates the rotary numbers of a head of q, or of a key, in place. In pair order the numbers are
 * first moved to the order of `rotate`; scores do not depend on the order. */
static void rotate_part(const struct rope_run *run, uint32_t position, float *x)
{
    const struct mr_latent_shape *shape = &run->latent->shape;
    const struct mr_cpu_rope *rope = run->latent->rope;
    const uint32_t half = shape->rope_dim / 2;
    const size_t at = (size_t)position * half;
    float moved[MR_CPU_HEAD_DIM_MAX];
    if (!rope) return;
    for (uint32_t i = 0; shape->pairs && i < half; i++) {
        moved[i] = x[2 * i];
        moved[half + i] = x[2 * i + 1];
    }
    if (shape->pairs) memcpy(x, moved, shape->rope_dim * sizeof *x);
    run->kv->ops->rotate(x, rope->cos + at, rope->sin + at, half);
}

static void write_latent_row(const struct rope_run *run, uint32_t row,
                             const struct mr_cpu_attention_sequence *sequence)
{
    const struct mr_cpu_kv *kv = run->kv;
    const struct mr_latent_shape *shape = &run->latent->shape;
    const uint32_t heads = run->latent->head_count, head = mr_latent_head(shape);
    const uint32_t position = sequence->context_tokens + row - sequence->row_begin;
    const uint32_t block = sequence->blocks[position / MR_BLOCK_TOKENS];
    const uint32_t token = position % MR_BLOCK_TOKENS;
    float *q = run->qkv + (size_t)row * heads * head;
    float *latent = run->latents + (size_t)row * mr_latent_row(shape) + shape->query_rank;
    const struct mr_cpu_norm norm = {
        .weight = run->latent->norm, .epsilon = shape->norm_epsilon, .width = shape->rank};
    _Alignas(64) float key[KEY_DIM_MAX] = {0}, ready[KEY_DIM_MAX];
    MR_ASSERT(block < kv->spec.block_count);
    for (uint32_t i = 0; i < heads; i++)
        rotate_part(run, position, q + i * head + shape->nope_dim);
    kv->ops->norm_row(&norm, latent, key);
    rotate_part(run, position, latent + shape->rank);
    memcpy(key + mr_latent_value(shape), latent + shape->rank, shape->rope_dim * sizeof *key);
    unsigned char *keys = mr_cpu_kv_keys(kv, block, run->attention->layer, 0);
    if (kv->spec.int8) {
        write_int8(kv, keys, token, key, NULL);
        return;
    }
    kv->ops->convert(key, 1.0f, kv->spec.head_dim, kv->spec.bf16, ready);
    write_key(kv, keys, token, ready);
}

/* ---- all rows ---- */

/* Processes rows [begin, end) of the batch: the rows of all sequences, counted in order. */
static void write_rows(void *context, size_t begin, size_t end)
{
    const struct rope_run *run = context;
    size_t first = 0;
    for (uint32_t s = 0; s < run->attention->sequence_count && first < end; s++) {
        const struct mr_cpu_attention_sequence *sequence = &run->attention->sequences[s];
        for (uint32_t i = 0; i < sequence->row_count; i++)
            if (first + i >= begin && first + i < end)
                (run->latent ? write_latent_row : write_row)(run, sequence->row_begin + i,
                                                             sequence);
        first += sequence->row_count;
    }
}

static void write_all(struct rope_run *run)
{
    size_t rows = 0;
    for (uint32_t s = 0; s < run->attention->sequence_count; s++)
        rows += run->attention->sequences[s].row_count;
    mr_parallel_for(rows, ROPE_GRAIN_ROWS, write_rows, run);
}

void mr_cpu_latent_write(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                         const struct mr_cpu_latent *latent, float *q, float *latents)
{
    struct rope_run run = {
        .kv = kv, .attention = attention, .qkv = q, .latent = latent, .latents = latents};
    MR_ASSERT(attention->layer < kv->spec.layer_count && kv->spec.kv_head_count == 1);
    MR_ASSERT(kv->spec.head_dim == mr_latent_key(&latent->shape) &&
              kv->spec.value_dim == mr_latent_value(&latent->shape));
    MR_ASSERT(latent->shape.rope_dim <= MR_CPU_HEAD_DIM_MAX);
    MR_ASSERT(!latent->rope || latent->rope->rotary_dim == latent->shape.rope_dim);
    write_all(&run);
}

void mr_cpu_rope_write(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                       const struct mr_cpu_rope_args *args, float *qkv)
{
    MR_ASSERT(attention->layer < kv->spec.layer_count);
    MR_ASSERT(!args->rope || args->rope->rotary_dim <= kv->spec.head_dim);
    MR_ASSERT((!args->q_norm && !args->k_norm) ||
              (args->norm_width > 0 && args->norm_width <= kv->spec.head_dim));
    MR_ASSERT(!args->norm_whole || !args->norm_centered);
    struct rope_run run = {.kv = kv, .attention = attention, .args = args, .qkv = qkv};
    write_all(&run);
}
