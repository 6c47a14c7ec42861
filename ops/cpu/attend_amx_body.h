/* attend_amx_body - attention of level.h in bf16 in the tile registers. Needs attend_body.h before
 * it.
 *
 * Sixteen queries meet a block 32 keys, a step, at a time. While the weights of a step are worked
 * out, the scores of the next one and the weighted values of the one before are, too: the tile and
 * the vector units are different ones.
 *
 * Weight 1 stands for the largest of a row's first 32 scores in the block, for there is none of the
 * others yet. Rows whose weights grow beyond ATTEND_LARGE that way, and those that do not see the
 * first key, are done once more, all scores first. Either is decided by the row and the block
 * alone. (172 tokens behind 2,100, 30 layers: 23 ms; all scores first: 27.5.) */
#ifndef MR_OPS_CPU_ATTEND_AMX_BODY_H
#define MR_OPS_CPU_ATTEND_AMX_BODY_H

#include "ops/cpu/attend_body.h"
#include "ops/cpu/tile_amx_body.h"

#define ATTEND_STEP  32u     /* keys: a tile of weights */
#define ATTEND_LARGE 0x1p60f /* sum of weights; far from what a float holds, times any value */

/* Up to AMX_ROWS rows. */
struct attend_chunk {
    const struct mr_cpu_attend *attend;
    const unsigned char *q;
    const uint32_t *end;
    uint32_t rows, keys;
    uint32_t whole_steps; /* from the first on: every row sees all of their keys */
    float factor;         /* from a score to its power of two */
    float minus_top[AMX_ROWS];
    lanes sum[AMX_ROWS];
    /* [step][two panels][row][16]; a row's 32 weights take the place of its first 16 scores. */
    _Alignas(64) float scores[MR_BLOCK_TOKENS * AMX_ROWS];
};

#define ATTEND_SCORES (AMX_ROWS * 16u) /* floats of a panel */

/* Registers: 0 to 3 sums of values, 4 scores, 5 rows, 6 and 7 panels. */
AMX_INLINE void attend_score(struct attend_chunk *chunk, uint32_t panel)
{
    const struct mr_cpu_attend *attend = chunk->attend;
    const size_t row_bytes = (size_t)attend->dim * 2;
    const unsigned char *keys = attend->keys + panel * attend->key_panel_bytes;
    _tile_zero(4);
    for (uint32_t at = 0; at < attend->dim / 32; at++) {
        _tile_loadd(5, chunk->q + at * AMX_WORDS * 4u, row_bytes);
        _tile_stream_loadd(6, keys + at * AMX_TILE_BYTES, MR_PANEL_BYTES);
        _tile_dpbf16ps(4, 5, 6);
    }
}

AMX_INLINE void attend_store_scores(struct attend_chunk *chunk, uint32_t panel)
{
    _tile_stored(4, chunk->scores + panel * ATTEND_SCORES, MR_PANEL_BYTES);
}

/* Adds two of the panels of a step's values to sums 0 and 1, or 2 and 3. */
AMX_INLINE void attend_add(const struct attend_chunk *chunk, uint32_t step,
                           const unsigned char *values, size_t panel_bytes, const bool second)
{
    amx_order();
    _tile_loadd(5, chunk->scores + 2 * step * ATTEND_SCORES, MR_PANEL_BYTES);
    _tile_stream_loadd(6, values, MR_PANEL_BYTES);
    _tile_stream_loadd(7, values + panel_bytes, MR_PANEL_BYTES);
    if (second) {
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    } else {
        _tile_dpbf16ps(0, 5, 6);
        _tile_dpbf16ps(1, 5, 7);
    }
}

static inline lanes attend_visible(lanes x, uint32_t end, uint32_t first_key)
{
    const uint32_t count = end < first_key ? 0 : end - first_key < 16 ? end - first_key : 16;
    return lanes_keep(x, 0, count, lanes_set(MR_CPU_NO_SCORE));
}

/* Weights of rows [from, to) of a step. */
AMX_INLINE void attend_weigh_rows(struct attend_chunk *chunk, uint32_t step, uint32_t from,
                                  uint32_t to, const bool whole)
{
    const lanes factor = lanes_set(chunk->factor);
    float *scores = chunk->scores + 2 * step * ATTEND_SCORES;
    for (uint32_t r = from; r < to; r++) {
        const lanes minus_top = lanes_set(chunk->minus_top[r]);
        lanes a = lanes_fma(lanes_load(scores + r * 16), factor, minus_top);
        lanes b = lanes_fma(lanes_load(scores + ATTEND_SCORES + r * 16), factor, minus_top);
        if (!whole) {
            a = attend_visible(a, chunk->end[r], step * ATTEND_STEP);
            b = attend_visible(b, chunk->end[r], step * ATTEND_STEP + 16);
        }
        a = rows_exp2_bf16(a);
        b = rows_exp2_bf16(b);
        chunk->sum[r] = lanes_add(chunk->sum[r], lanes_add(a, b));
        _mm512_store_si512((__m512i *)(void *)(scores + r * 16),
                           (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}

AMX_INLINE void attend_weigh_step(struct attend_chunk *chunk, uint32_t step, uint32_t from)
{
    const uint32_t to = from + 4 < chunk->rows ? from + 4 : chunk->rows;
    if (step < chunk->whole_steps)
        attend_weigh_rows(chunk, step, from, to, true);
    else
        attend_weigh_rows(chunk, step, from, to, false);
}

static void attend_find_top(struct attend_chunk *chunk, float *top)
{
    for (uint32_t r = 0; r < chunk->rows; r++) {
        const lanes a = attend_visible(lanes_load(chunk->scores + r * 16), chunk->end[r], 0);
        const lanes b =
            attend_visible(lanes_load(chunk->scores + ATTEND_SCORES + r * 16), chunk->end[r], 16);
        top[r] = chunk->end[r] > 0 ? lanes_top(lanes_max(a, b)) * chunk->factor : MR_CPU_NO_SCORE;
        chunk->minus_top[r] = -top[r];
        chunk->sum[r] = lanes_set(0.0f);
    }
}

/* The same of `panels` panels, 2 or 4. The last step's last words may hold anything: zeros stand
 * for what lies behind `keys`. */
static void attend_add_step(const struct attend_chunk *chunk, uint32_t step,
                            const unsigned char *values, uint32_t panels)
{
    const uint32_t words = (chunk->keys - step * ATTEND_STEP + 1) / 2;
    size_t panel_bytes = chunk->attend->value_panel_bytes;
    _Alignas(64) unsigned char padded[4 * AMX_TILE_BYTES];
    if (words < AMX_WORDS) {
        memset(padded, 0, sizeof padded);
        for (uint32_t p = 0; p < panels; p++)
            memcpy(padded + p * AMX_TILE_BYTES, values + p * panel_bytes,
                   (size_t)words * MR_PANEL_BYTES);
        values = padded;
        panel_bytes = AMX_TILE_BYTES;
    }
    attend_add(chunk, step, values, panel_bytes, false);
    if (panels > 2) attend_add(chunk, step, values + 2 * panel_bytes, panel_bytes, true);
}

static void attend_store(const struct attend_chunk *chunk, float *out, uint32_t panels)
{
    const size_t row_bytes = chunk->attend->dim * sizeof *out;
    _tile_stored(0, out, row_bytes);
    _tile_stored(1, out + MR_PANEL_COLUMNS, row_bytes);
    if (panels == 2) return;
    _tile_stored(2, out + 2 * MR_PANEL_COLUMNS, row_bytes);
    _tile_stored(3, out + 3 * MR_PANEL_COLUMNS, row_bytes);
}

static void attend_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Weights, and the weighted values of the first `panels` panels, 2 or 4. */
static void attend_steps(struct attend_chunk *chunk, float *top, uint32_t panels)
{
    const struct mr_cpu_attend *attend = chunk->attend;
    const uint32_t steps = (chunk->keys + ATTEND_STEP - 1) / ATTEND_STEP;
    const unsigned char *values = attend->values; /* of the step before */
    attend_score(chunk, 0);
    attend_store_scores(chunk, 0);
    attend_score(chunk, 1);
    attend_store_scores(chunk, 1);
    attend_find_top(chunk, top);
    attend_zero();
    for (uint32_t step = 0; step < steps; step++) {
        if (step + 1 < steps) attend_score(chunk, 2 * step + 2);
        attend_weigh_step(chunk, step, 0);
        if (step > 0) attend_add(chunk, step - 1, values, attend->value_panel_bytes, false);
        attend_weigh_step(chunk, step, 4);
        if (step + 1 < steps) {
            attend_store_scores(chunk, 2 * step + 2);
            attend_score(chunk, 2 * step + 3);
        }
        attend_weigh_step(chunk, step, 8);
        if (step > 0 && panels > 2)
            attend_add(chunk, step - 1, values + 2 * attend->value_panel_bytes,
                       attend->value_panel_bytes, true);
        attend_weigh_step(chunk, step, 12);
        if (step + 1 < steps) attend_store_scores(chunk, 2 * step + 3);
        if (step > 0) values += AMX_TILE_BYTES;
    }
    attend_add_step(chunk, steps - 1, values, panels);
}

/* Weighted values of other panels, by weights that are there. */
static void attend_more(struct attend_chunk *chunk, uint32_t panel, uint32_t panels)
{
    const unsigned char *values = chunk->attend->values + panel * chunk->attend->value_panel_bytes;
    attend_zero();
    for (uint32_t step = 0; step * ATTEND_STEP < chunk->keys; step++)
        attend_add_step(chunk, step, values + step * AMX_TILE_BYTES, panels);
}

/* Rows of the chunk from `first` on whose bits are set, all scores first. */
static void attend_again(const struct mr_cpu_attend *attend, uint32_t first, uint32_t rows,
                         uint32_t bits)
{
    _Alignas(64) float out[AMX_ROWS * 256], sum[AMX_ROWS], top[AMX_ROWS];
    struct mr_cpu_attend again = *attend;
    again.q += (size_t)first * attend->dim * 2;
    again.begin += first;
    again.end += first;
    again.out = out;
    again.sum = sum;
    again.top = top;
    again.rows = rows;
    attend_panels(&again);
    for (uint32_t r = 0; r < rows; r++) {
        if (!(bits >> r & 1u)) continue;
        memcpy(attend->out + (size_t)(first + r) * attend->dim, out + (size_t)r * attend->dim,
               attend->dim * sizeof *out);
        attend->sum[first + r] = sum[r];
        attend->top[first + r] = top[r];
    }
}

/* Rows [first, first + rows), rows <= AMX_ROWS; returns the bits of those to be done again. */
static uint32_t attend_chunk(const struct mr_cpu_attend *attend, uint32_t first, uint32_t rows)
{
    const uint32_t panels = attend->dim / MR_PANEL_COLUMNS;
    float *out = attend->out + (size_t)first * attend->dim;
    uint32_t least = MR_BLOCK_TOKENS, again = 0;
    struct attend_chunk chunk;
    chunk.attend = attend;
    chunk.q = attend->q + (size_t)first * attend->dim * 2;
    chunk.end = attend->end + first;
    chunk.rows = rows;
    chunk.keys = 0;
    chunk.factor = attend->scale * ROWS_LOG2_E;
    for (uint32_t r = 0; r < rows; r++) {
        if (chunk.end[r] > chunk.keys) chunk.keys = chunk.end[r];
        if (chunk.end[r] < least) least = chunk.end[r];
    }
    chunk.whole_steps = least / ATTEND_STEP;
    if (chunk.keys == 0) return (1u << rows) - 1u;
    attend_steps(&chunk, attend->top + first, panels < 4 ? panels : 4);
    attend_store(&chunk, out, panels < 4 ? panels : 4);
    for (uint32_t panel = 4; panel < panels; panel += 4) {
        attend_more(&chunk, panel, panels - panel < 4 ? panels - panel : 4);
        attend_store(&chunk, out + panel * MR_PANEL_COLUMNS,
                     panels - panel < 4 ? panels - panel : 4);
    }
    for (uint32_t r = 0; r < rows; r++) {
        const float sum = lanes_sum(chunk.sum[r]);
        attend->sum[first + r] = sum;
        if (!(sum <= ATTEND_LARGE) || attend->begin[first + r] > 0) again |= 1u << r;
    }
    return again;
}

/* Soft caps and other head sizes: all scores first. */
static void attend_tiles(const struct mr_cpu_attend *attend)
{
    if (!attend->bf16 || attend->dim % 32 != 0 || attend->softcap > 0.0f) {
        attend_panels(attend);
        return;
    }
    struct amx_place configured = {0};
    for (uint32_t first = 0; first < attend->rows; first += AMX_ROWS) {
        const uint32_t left = attend->rows - first, rows = left < AMX_ROWS ? left : AMX_ROWS;
        if (configured.first != rows) {
            configured.first = rows;
            amx_configure(&configured);
        }
        const uint32_t again = attend_chunk(attend, first, rows);
        if (again == 0) continue;
        attend_again(attend, first, rows, again);
        configured.first = 0;
    }
    _tile_release();
}

#endif
