/* attend_body - the attention of level.h over the 16 lanes of the including file: all scores of a
 * few rows, their softmax, then the weighted values. A file with a bf16 product of its own
 * (TILE_F32_ONLY) defines tile_bf16 before it includes this one. */
#ifndef MR_OPS_CPU_ATTEND_BODY_H
#define MR_OPS_CPU_ATTEND_BODY_H

#include "ops/cpu/level.h"
#include "ops/cpu/rows_body.h"
#include "ops/cpu/tile_body.h"

#define ATTEND_ROWS   32u
#define ATTEND_STRIDE (MR_BLOCK_TOKENS + 16u) /* puts rows into different sets of the L1 cache */

/* Turns scores into softmax weights, not yet divided by their sum. */
struct attend_softmax {
    /* [rows, ATTEND_STRIDE]. The weights overwrite the scores of their row, from its first byte on,
     * in bf16 or f32; up to `extent` they are 0 for keys that the row does not attend to. */
    float *scores;
    const uint32_t *begin, *end;
    float *top, *sum;
    uint32_t rows;
    uint32_t extent; /* keys for which weights are written, a multiple of 16 */
    float scale, softcap;
    bool bf16;
};

/* cap * tanh(x * scale / cap) / scale: capped, and still to be multiplied by scale. */
static inline lanes attend_softcap(lanes x, float scale, float cap)
{
    lanes doubled = lanes_mul(x, lanes_set(2.0f * ROWS_LOG2_E * scale / cap));
    lanes below = lanes_add(rows_exp2(doubled), lanes_set(1.0f));
    lanes tanh = lanes_sub(lanes_set(1.0f), lanes_div(lanes_set(2.0f), below));
    return lanes_mul(tanh, lanes_set(cap / scale));
}

/* Keys are handled in groups of 16. Keys of a row's first and last group that the row does not
 * attend to get a score whose weight is 0. Returns the largest score times `factor`. */
static float attend_top(const struct attend_softmax *softmax, uint32_t row, float factor)
{
    const uint32_t begin = softmax->begin[row], end = softmax->end[row];
    const uint32_t first = begin & ~15u, last = end & ~15u;
    const lanes nothing = lanes_set(MR_CPU_NO_SCORE);
    float *scores = softmax->scores + row * ATTEND_STRIDE;
    lanes top = nothing;
    if (begin >= end) return MR_CPU_NO_SCORE;
    if (softmax->softcap > 0.0f)
        for (uint32_t i = first; i < end; i += 16)
            lanes_store(scores + i,
                        attend_softcap(lanes_load(scores + i), softmax->scale, softmax->softcap));
    if (begin > first)
        lanes_store(scores + first,
                    lanes_keep(lanes_load(scores + first), begin - first, 16, nothing));
    if (end > last)
        lanes_store(scores + last, lanes_keep(lanes_load(scores + last), 0, end - last, nothing));
    for (uint32_t i = first; i < end; i += 16)
        top = lanes_max(lanes_load(scores + i), top);
    return lanes_top(top) * factor;
}

/* Overwrites scores with weights; returns their sum. A weight is never stored at a higher address
 * than the score it comes from, so no score is overwritten before it is read. */
static inline float attend_weigh(const struct attend_softmax *softmax, uint32_t row, float factor,
                                 const bool bf16)
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
        rows_store(scores, i, p, 16, bf16);
    }
    for (; i < softmax->extent; i += 16)
        rows_store(scores, i, none, 16, bf16);
    return lanes_sum(sum);
}

/* All tops first, then all weights: the processor can overlap the top of one row with that of the
 * next, but a row's weights need the row's top. */
static void attend_softmax_rows(const struct attend_softmax *softmax)
{
    const float factor = softmax->scale * ROWS_LOG2_E;
    for (uint32_t row = 0; row < softmax->rows; row++)
        softmax->top[row] = attend_top(softmax, row, factor);
    for (uint32_t row = 0; row < softmax->rows; row++)
        softmax->sum[row] = softmax->bf16 ? attend_weigh(softmax, row, factor, true)
                                          : attend_weigh(softmax, row, factor, false);
}

static void attend_product(const struct mr_cpu_attend *attend, const struct mr_cpu_tile *product)
{
    if (attend->bf16)
        tile_bf16(product);
    else
        tile_f32(product);
}

/* Rows [first, first + rows), rows <= ATTEND_ROWS. */
static void attend_rows(const struct mr_cpu_attend *attend, uint32_t first, uint32_t rows)
{
    const uint32_t dim = attend->dim, per_word = attend->bf16 ? 2 : 1;
    const size_t row_bytes = (size_t)dim * (attend->bf16 ? 2 : 4);
    _Alignas(64) float scores[ATTEND_ROWS * ATTEND_STRIDE]; /* overwritten by weights */
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
                                            .word_count = dim / per_word};
    const struct attend_softmax softmax = {.scores = scores,
                                           .begin = attend->begin + first,
                                           .end = attend->end + first,
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
                                           .c = attend->out + (size_t)first * dim,
                                           .c_stride = dim,
                                           .rows = rows,
                                           .panels = dim / 16,
                                           .word_count = (keys + per_word - 1) / per_word};
    attend_product(attend, &find_scores);
    attend_softmax_rows(&softmax);
    attend_product(attend, &add_values);
}

static void attend_panels(const struct mr_cpu_attend *attend)
{
    for (uint32_t first = 0; first < attend->rows; first += ATTEND_ROWS) {
        const uint32_t left = attend->rows - first;
        attend_rows(attend, first, left < ATTEND_ROWS ? left : ATTEND_ROWS);
    }
}

#endif
