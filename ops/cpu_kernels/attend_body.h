/* attend_body - attention (struct mr_cpu_attend of level.h) for a few query rows at a time: all
 * their scores, the softmax of the scores, then the weighted values. Defines attend_panels.
 *
 * Needs, defined before it is included: the 16-lane vectors of one instruction set, and tile_bf16
 * and tile_f32, the two matrix products of struct mr_cpu_ops in level.h. */
#ifndef MR_OPS_CPU_KERNELS_ATTEND_BODY_H
#define MR_OPS_CPU_KERNELS_ATTEND_BODY_H

#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/level.h"
#include "ops/cpu_kernels/rows_body.h"

#include <string.h>

#define ATTEND_INLINE static inline __attribute__((always_inline))

/* ---- products with K and V in int8 (kv_pool.h) ----
 * A few panels at a time are expanded to bf16 or f32 in the L1 cache and multiplied there, so
 * memory is read at half the bytes of bf16. The integers are expanded without their scales, which
 * is exact: a bf16 number holds any integer up to 256. The scale of a key is multiplied to its
 * scores, the scale of a value to its weights. */

/* Bytes of the panels that are expanded together, unless one is longer. */
#define ATTEND_INT8_BYTES 16384u

/* Expands one panel and prefetches `next`. A bf16 word takes the integers at one column of two
 * neighbouring rows. */
ATTEND_INLINE void attend_int8_expand(const unsigned char *in, const unsigned char *next,
                                      uint32_t word_count, const bool bf16, unsigned char *out)
{
    const size_t row_bytes = bf16 ? 32 : 16;
    for (uint32_t i = 0; i < word_count; i++, out += MR_PANEL_BYTES) {
        lanes_prefetch(next + i * row_bytes);
        const lanes first = lanes_from_bytes(in);
        in += 16;
        if (!bf16) {
            lanes_raw_store(out, lanes_bits(first));
            continue;
        }
        lanes_raw_store(out, lanes_pairs(first, lanes_from_bytes(in)));
        in += 16;
    }
}

/* Computes the product of level.h, b being panels of integers: rows of 16 bytes, two for a word of
 * bf16. Splitting the panels changes no sum. */
static void attend_int8_product(const struct mr_cpu_tile *product, bool bf16)
{
    _Alignas(64) unsigned char panels[MR_CPU_KEY_DIM_MAX * MR_PANEL_BYTES];
    struct mr_cpu_tile part = *product;
    part.b = panels;
    part.panel_bytes = (size_t)product->word_count * MR_PANEL_BYTES;
    part.next = NULL;
    /* Without words (no row attends to a key) the sums are zero. */
    uint32_t most = product->word_count > 0 ? (uint32_t)(ATTEND_INT8_BYTES / part.panel_bytes)
                                            : product->panels;
    if (most == 0) most = 1;
    for (uint32_t first = 0; first < product->panels; first += most) {
        const uint32_t left = product->panels - first;
        part.panels = left < most ? left : most;
        for (uint32_t i = 0; i < part.panels; i++) {
            const size_t at = (first + i) * product->panel_bytes;
            const unsigned char *in = product->b + at;
            const unsigned char *next = product->next ? product->next + at : in;
            if (bf16)
                attend_int8_expand(in, next, part.word_count, true, panels + i * part.panel_bytes);
            else
                attend_int8_expand(in, next, part.word_count, false, panels + i * part.panel_bytes);
        }
        part.c = product->c + first * MR_PANEL_COLUMNS;
        if (bf16)
            tile_bf16(&part);
        else
            tile_f32(&part);
    }
}

/* Returns scales [first, first + 16) of bf16 numbers. */
ATTEND_INLINE lanes attend_int8_scales(const uint16_t *scales, uint32_t first)
{
    float factors[16];
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t bits = (uint32_t)scales[first + i] << 16;
        memcpy(&factors[i], &bits, sizeof bits);
    }
    return lanes_load(factors);
}

/* ---- attention ---- */

#define ATTEND_ROWS 32u
/* + 16: consecutive rows start in different sets of the L1 cache. */
#define ATTEND_STRIDE (MR_BLOCK_TOKENS + 16u)

/* Arguments of the functions that turn scores into softmax weights, which are not yet divided by
 * their sum. */
struct attend_softmax {
    /* [rows, ATTEND_STRIDE] scores. The weights of a row, bf16 or f32, overwrite the row's scores
     * from the row's first byte on; keys below `extent` that the row does not attend to get weight
     * 0. */
    float *scores;
    const uint32_t *begin, *end;
    const uint16_t *key_scales, *value_scales; /* as in struct mr_cpu_attend */
    float *top, *sum;
    uint32_t rows;
    uint32_t extent; /* number of keys for which weights are written; a multiple of 16 */
    float scale, softcap;
    bool bf16;
};

/* Returns the largest score of a row times `factor`. Scores are processed 16 at a time; among the
 * first 16 and the last 16, keys that the row does not attend to get a score whose weight is 0. */
static float attend_top(const struct attend_softmax *softmax, uint32_t row, float factor)
{
    const uint32_t begin = softmax->begin[row], end = softmax->end[row];
    const uint32_t first = begin & ~15u, last = end & ~15u;
    const lanes nothing = lanes_set(MR_CPU_NO_SCORE);
    float *scores = softmax->scores + row * ATTEND_STRIDE;
    lanes top = nothing;
    if (begin >= end) return MR_CPU_NO_SCORE;
    if (softmax->key_scales)
        for (uint32_t i = first; i < end; i += 16)
            lanes_store(scores + i, lanes_mul(lanes_load(scores + i),
                                              attend_int8_scales(softmax->key_scales, i)));
    if (softmax->softcap > 0.0f)
        for (uint32_t i = first; i < end; i += 16)
            lanes_store(scores + i,
                        rows_cap(lanes_load(scores + i), softmax->scale, softmax->softcap));
    if (begin > first)
        lanes_store(scores + first,
                    lanes_keep(lanes_load(scores + first), begin - first, 16, nothing));
    if (end > last)
        lanes_store(scores + last, lanes_keep(lanes_load(scores + last), 0, end - last, nothing));
    for (uint32_t i = first; i < end; i += 16)
        top = lanes_max(lanes_load(scores + i), top);
    return lanes_top(top) * factor;
}

/* Multiplies the weights of keys [first, first + 16) by the scales of their values. A key that the
 * row does not attend to may have any scale, even NaN, and keeps weight 0. */
static inline lanes attend_scale_weights(const struct attend_softmax *softmax, uint32_t row,
                                         uint32_t first, lanes weights)
{
    const uint32_t begin = softmax->begin[row], end = softmax->end[row];
    weights = lanes_mul(weights, attend_int8_scales(softmax->value_scales, first));
    return lanes_keep(weights, begin > first ? begin - first : 0,
                      end - first < 16 ? end - first : 16, lanes_set(0.0f));
}

/* Overwrites the scores of a row with weights and returns their sum. `scaled`: the stored weights,
 * but not the sum, are multiplied by the scales of the values. A weight is never stored at a higher
 * address than the score it comes from, so no score is overwritten before it is read. */
static inline float attend_weigh(const struct attend_softmax *softmax, uint32_t row, float factor,
                                 const bool bf16, const bool scaled)
{
    const uint32_t begin = softmax->begin[row] & ~15u, end = softmax->end[row];
    float *scores = softmax->scores + row * ATTEND_STRIDE;
    const lanes by = lanes_set(factor), minus_top = lanes_set(-softmax->top[row]);
    const lanes none = lanes_set(0.0f);
    lanes sum = none;
    uint32_t i = 0;
    for (; i < begin; i += 16)
        rows_store(scores, i, none, 16, bf16);
    for (; i < end; i += 16) {
        lanes p = lanes_fma(lanes_load(scores + i), by, minus_top);
        p = bf16 ? rows_exp2_bf16(p) : rows_exp2(p);
        sum = lanes_add(sum, p);
        if (scaled) p = attend_scale_weights(softmax, row, i, p);
        rows_store(scores, i, p, 16, bf16);
    }
    for (; i < softmax->extent; i += 16)
        rows_store(scores, i, none, 16, bf16);
    return lanes_sum(sum);
}

/* Finds the tops (largest scores) of all rows first, then computes all weights: the processor can
 * overlap the search for one row's top with that for the next row's, but the weights of a row need
 * the row's top. */
static void attend_softmax_rows(const struct attend_softmax *softmax)
{
    const float factor = softmax->scale * ROWS_LOG2_E;
    for (uint32_t row = 0; row < softmax->rows; row++)
        softmax->top[row] = attend_top(softmax, row, factor);
    for (uint32_t row = 0; row < softmax->rows; row++)
        if (softmax->value_scales)
            softmax->sum[row] = softmax->bf16 ? attend_weigh(softmax, row, factor, true, true)
                                              : attend_weigh(softmax, row, factor, false, true);
        else
            softmax->sum[row] = softmax->bf16 ? attend_weigh(softmax, row, factor, true, false)
                                              : attend_weigh(softmax, row, factor, false, false);
}

static void attend_product(const struct mr_cpu_attend *attend, const struct mr_cpu_tile *product)
{
    if (attend->key_scales)
        attend_int8_product(product, attend->bf16);
    else if (attend->bf16)
        tile_bf16(product);
    else
        tile_f32(product);
}

#include "ops/cpu_kernels/attend_shared_body.h"

/* Computes attention for query rows [first, first + rows), rows <= ATTEND_ROWS. */
static void attend_rows(const struct mr_cpu_attend *attend, uint32_t first, uint32_t rows)
{
    const uint32_t dim = attend->dim, per_word = attend->bf16 ? 2 : 1;
    const size_t row_bytes = (size_t)dim * (attend->bf16 ? 2 : 4);
    _Alignas(64) float scores[ATTEND_ROWS * ATTEND_STRIDE]; /* later overwritten by weights */
    uint32_t keys = 0;
    for (uint32_t r = first; r < first + rows; r++)
        keys = attend->end[r] > keys ? attend->end[r] : keys;
    const struct mr_cpu_tile find_scores = {.a = attend->q + first * row_bytes,
                                            .a_stride_bytes = row_bytes,
                                            .b = attend->keys,
                                            .panel_bytes = attend->key_panel_bytes,
                                            .c = scores,
                                            .c_stride = ATTEND_STRIDE,
                                            .rows = rows,
                                            .panels = (keys + 15) / 16,
                                            .next = attend->values,
                                            .word_count = dim / per_word};
    const struct attend_softmax softmax = {.scores = scores,
                                           .begin = attend->begin + first,
                                           .end = attend->end + first,
                                           .key_scales = attend->key_scales,
                                           .value_scales = attend->value_scales,
                                           .top = attend->top + first,
                                           .sum = attend->sum + first,
                                           .rows = rows,
                                           .extent = (keys + 15u) & ~15u,
                                           .scale = attend->scale,
                                           .softcap = attend->softcap,
                                           .bf16 = attend->bf16};
    const struct mr_cpu_tile add_values = {.a = (const unsigned char *)scores,
                                           .a_stride_bytes = ATTEND_STRIDE * sizeof *scores,
                                           .b = attend->values,
                                           .panel_bytes = attend->value_panel_bytes,
                                           .c = attend->out + (size_t)first * attend->value_dim,
                                           .c_stride = attend->value_dim,
                                           .rows = rows,
                                           .panels = attend->value_dim / 16,
                                           .next = attend->next_keys,
                                           .word_count = (keys + per_word - 1) / per_word};
    attend_product(attend, &find_scores);
    attend_softmax_rows(&softmax);
    if (attend->values)
        attend_product(attend, &add_values);
    else
        attend_shared_product(attend, &add_values, keys);
}

static void attend_panels(const struct mr_cpu_attend *attend)
{
    for (uint32_t first = 0; first < attend->rows; first += ATTEND_ROWS) {
        const uint32_t left = attend->rows - first;
        attend_rows(attend, first, left < ATTEND_ROWS ? left : ATTEND_ROWS);
    }
}

#endif
