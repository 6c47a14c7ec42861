/* attend_body - attention (struct mr_cpu_attend of level.h) in the 16-lane vectors that the
 * including file defines. It takes a few query rows at a time and computes all their scores, the
 * softmax of the scores, then the weighted values. A file with its own bf16 matrix product (which
 * defines TILE_F32_ONLY) defines tile_bf16 before it includes this file. */
#ifndef MR_OPS_CPU_ATTEND_BODY_H
#define MR_OPS_CPU_ATTEND_BODY_H

#include "ops/cpu/level.h"
#include "ops/cpu/rows_body.h"
#include "ops/cpu/tile_body.h"

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

/* Overwrites the scores of a row with weights; returns the sum of the weights. A weight is never
 * stored at a higher address than the score it comes from, so no score is overwritten before it is
 * read. */
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

/* Finds the tops (largest scores) of all rows first, then computes all weights: the processor can
 * overlap the search for one row's top with that for the next row's, but the weights of a row need
 * the row's top. */
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
