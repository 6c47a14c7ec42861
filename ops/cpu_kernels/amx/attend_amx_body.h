/* attend_amx_body - attention (struct mr_cpu_attend of level.h) in bf16 in the tile registers of
 * AMX.
 *
 * Sixteen query rows are processed against a block in steps of 32 keys. While the vector unit
 * computes the weights of one step, the tile unit computes the scores of a later step and the
 * weighted values of an earlier step.
 *
 * The largest score of a row is not yet known when the first weights are computed, so weights are
 * relative to the row's score with the first key of the block, which gets weight 1. Rows whose sum
 * of weights exceeds ATTEND_LARGE, and rows that do not attend to the first key, are computed again
 * by attend_panels, which computes all scores before any weight. Whether a row is computed again
 * depends on the row and the block alone.
 *
 * Weights are computed in 16-bit integers (N. Schraudolph, A Fast, Compact Approximation of the
 * Exponential Function, Neural Computation 11, 1999). For the exponent x = e + f, 0 <= f < 1, the
 * integer 256 * (127 + x), halved, is the bit pattern of the bf16 number (1 + f) * 2^e; attend_bend
 * subtracts the difference between 1 + f and 2^f. The relative error is at most 0.7 %, root mean
 * square 0.19 %; rounding exact weights to bf16 gives 0.4 % and 0.17 %. Measured: attention of 172
 * prompt tokens after 2,100 earlier tokens, 30 layers, takes 19.5 ms; with attend_panels 27.5.
 *
 * Needs, defined before it is included: the 16-lane vectors of AVX-512, and attend_panels, which
 * computes the attention of level.h for any shape and number format. Defines attend_tiles. */
#ifndef MR_OPS_CPU_KERNELS_AMX_ATTEND_AMX_BODY_H
#define MR_OPS_CPU_KERNELS_AMX_ATTEND_AMX_BODY_H

#include "ops/cpu_kernels/amx/tile_amx_body.h"
#include "ops/cpu_kernels/rows_body.h"

#define ATTEND_STEP 32u /* keys in a step: the weights of 16 rows fill one tile register */
/* The scores of a step are computed this many steps before its weights, and its weights this many
 * steps before its weighted values. */
#define ATTEND_AHEAD 2u
/* A row whose sum of weights exceeds this is computed again. Up to this sum, weights times values
 * cannot overflow. */
#define ATTEND_LARGE 0x1p60f

/* A weight is first computed as a float: ATTEND_ZERO plus the integer described at the top of this
 * file. Floats from 2^23 on are whole numbers, so the low 16 bits of the float hold the integer.
 * The conversion to 16 bits saturates: a float in [0, ATTEND_ZERO), or from -ATTEND_ZERO down,
 * gives weight 0. Any other negative float, and an integer too large for 16 bits, gives a weight
 * that is too large, so the row is computed again. NaN gives either. */
#define ATTEND_ZERO 0x1p23f
/* The integer of weight 1, plus 1 so that halving rounds up. */
#define ATTEND_ONE (256.0f * 127.0f + 1.0f)

/* The computation of up to AMX_ROWS query rows against one block of keys and values. */
struct attend_chunk {
    const struct mr_cpu_attend *attend;
    const unsigned char *q;
    const uint32_t *end;
    uint32_t rows, keys;
    uint32_t whole_steps; /* number of leading steps in which every row attends to all keys */
    float factor;         /* score * factor is the base-2 exponent of the key's weight */
    _Alignas(64) float minus_top[AMX_ROWS];
    /* [step][2 panels of keys][row][16 keys]. The 32 bf16 weights of a row in a step overwrite the
     * row's first 16 float scores of the step. */
    _Alignas(64) float scores[MR_BLOCK_TOKENS * AMX_ROWS];
};

#define ATTEND_SCORES (AMX_ROWS * 16u) /* number of floats in the scores of one panel of keys */

/* Adds to the scores of a step the products over the dimension tiles [from, to) of the head, each
 * 32 dimensions; from == 0 clears the scores first. Tile registers: 0 to 3 hold sums of weighted
 * values, 4 and 5 scores, 6 query rows, 7 a panel. */
AMX_INLINE void attend_score(const struct attend_chunk *chunk, uint32_t step, uint32_t from,
                             uint32_t to)
{
    const struct mr_cpu_attend *attend = chunk->attend;
    const size_t row_bytes = (size_t)attend->dim * 2;
    const unsigned char *keys = attend->keys + 2 * step * attend->key_panel_bytes;
    if (from == 0) {
        _tile_zero(4);
        _tile_zero(5);
    }
    for (uint32_t at = from; at < to; at++) {
        _tile_loadd(6, chunk->q + at * AMX_WORDS * 4u, row_bytes);
        _tile_stream_loadd(7, keys + at * AMX_TILE_BYTES, MR_PANEL_BYTES);
        _tile_dpbf16ps(4, 6, 7);
        _tile_stream_loadd(7, keys + attend->key_panel_bytes + at * AMX_TILE_BYTES, MR_PANEL_BYTES);
        _tile_dpbf16ps(5, 6, 7);
    }
}

AMX_INLINE void attend_store_scores(struct attend_chunk *chunk, uint32_t step)
{
    float *scores = chunk->scores + 2 * step * ATTEND_SCORES;
    _tile_stored(4, scores, MR_PANEL_BYTES);
    _tile_stored(5, scores + ATTEND_SCORES, MR_PANEL_BYTES);
}

/* Adds the values of one full step (32 keys), times their weights, to the sums in tile registers;
 * `panels`: 2 or 4 panels of values, each 16 dimensions of the head. */
AMX_INLINE void attend_add(const struct attend_chunk *chunk, uint32_t step,
                           const unsigned char *values, size_t panel_bytes, uint32_t panels)
{
    amx_order();
    _tile_loadd(6, chunk->scores + 2 * step * ATTEND_SCORES, MR_PANEL_BYTES);
    _tile_stream_loadd(7, values, MR_PANEL_BYTES);
    _tile_dpbf16ps(0, 6, 7);
    _tile_stream_loadd(7, values + panel_bytes, MR_PANEL_BYTES);
    _tile_dpbf16ps(1, 6, 7);
    if (panels == 2) return;
    _tile_stream_loadd(7, values + 2 * panel_bytes, MR_PANEL_BYTES);
    _tile_dpbf16ps(2, 6, 7);
    _tile_stream_loadd(7, values + 3 * panel_bytes, MR_PANEL_BYTES);
    _tile_dpbf16ps(3, 6, 7);
}

/* The same as attend_add, also for a last step with fewer than 32 keys: the block's values after
 * `keys` may be left over from another request, so zeros replace them. */
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
    attend_add(chunk, step, values, panel_bytes, panels);
}

static inline lanes attend_visible(lanes x, uint32_t end, uint32_t first_key)
{
    const uint32_t count = end < first_key ? 0 : end - first_key < 16 ? end - first_key : 16;
    return lanes_keep(x, 0, count, lanes_set(0.0f));
}

/* Correction of the exponential, 256 * (1 + f - 2^f): element i is the mean over f in [i / 64, (i +
 * 1) / 64). */
static const _Alignas(64) uint8_t attend_bend[64] = {
    0,  1,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 13, 14, 15, 16, 16, 17, 18, 18, 19,
    19, 20, 20, 20, 21, 21, 21, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 21, 21, 21, 21, 20,
    20, 19, 19, 18, 17, 17, 16, 15, 14, 13, 12, 11, 10, 9,  8,  7,  6,  4,  3,  1};

/* Computes the softmax weights of rows [from, to) in one step of 32 keys. whole: every row attends
 * to all keys of the step. */
AMX_INLINE void attend_weigh_rows(struct attend_chunk *chunk, uint32_t step, uint32_t from,
                                  uint32_t to, const bool whole)
{
    const lanes factor = lanes_set(chunk->factor * 256.0f);
    const __m512i table = _mm512_load_si512(attend_bend);
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i zero = _mm512_castps_si512(lanes_set(ATTEND_ZERO));
    float *scores = chunk->scores + 2 * step * ATTEND_SCORES;
    for (uint32_t r = from; r < to; r++) {
        const lanes minus_top = lanes_set(chunk->minus_top[r]);
        lanes a = lanes_fma(lanes_load(scores + r * 16), factor, minus_top);
        lanes b = lanes_fma(lanes_load(scores + ATTEND_SCORES + r * 16), factor, minus_top);
        if (!whole) {
            a = attend_visible(a, chunk->end[r], step * ATTEND_STEP);
            b = attend_visible(b, chunk->end[r], step * ATTEND_STEP + 16);
        }
        __m512i t = _mm512_packus_epi32(_mm512_sub_epi32(_mm512_castps_si512(a), zero),
                                        _mm512_sub_epi32(_mm512_castps_si512(b), zero));
        t = _mm512_permutexvar_epi64(order, t);
        const __m512i bend =
            _mm512_maskz_permutexvar_epi8(0x5555555555555555u, _mm512_srli_epi16(t, 2), table);
        _mm512_store_si512((__m512i *)(void *)(scores + r * 16),
                           _mm512_srli_epi16(_mm512_sub_epi16(t, bend), 1));
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

/* Returns column 0 of a tile that has been stored to memory: one float for each row. */
static inline lanes attend_column(const float *tile)
{
    const __m512i rows =
        _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
    return _mm512_i32gather_ps(rows, tile, sizeof *tile);
}

/* Bit r of the result is set when row r attends to any key of the block. */
static inline __mmask16 attend_active(const struct attend_chunk *chunk)
{
    const __mmask16 present = (__mmask16)((1u << chunk->rows) - 1u);
    const __m512i end = _mm512_maskz_loadu_epi32(present, chunk->end);
    return _mm512_test_epi32_mask(end, end);
}

static void attend_find_top(struct attend_chunk *chunk, float *top)
{
    const lanes x =
        lanes_round(lanes_mul(attend_column(chunk->scores), lanes_set(chunk->factor * 256.0f)));
    lanes_store(chunk->minus_top, lanes_sub(lanes_set(ATTEND_ZERO + ATTEND_ONE), x));
    lanes_store_part(top,
                     _mm512_mask_blend_ps(attend_active(chunk), lanes_set(MR_CPU_NO_SCORE),
                                          lanes_mul(x, lanes_set(1.0f / 256.0f))),
                     chunk->rows);
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

/* Computes the weights of all steps, and the weighted values of the first `panels` panels of values
 * (2 or 4). */
static void attend_steps(struct attend_chunk *chunk, float *top, uint32_t panels)
{
    const struct mr_cpu_attend *attend = chunk->attend;
    const uint32_t steps = (chunk->keys + ATTEND_STEP - 1) / ATTEND_STEP, tiles = attend->dim / 32;
    uint32_t added = 0;
    for (uint32_t step = 0; step < ATTEND_AHEAD && step < steps; step++) {
        attend_score(chunk, step, 0, tiles);
        attend_store_scores(chunk, step);
    }
    amx_order();
    attend_find_top(chunk, top);
    attend_zero();
    for (uint32_t step = 0; step < steps; step++) {
        const uint32_t ahead = step + ATTEND_AHEAD;
        if (ahead < steps) attend_score(chunk, ahead, 0, tiles / 2);
        attend_weigh_step(chunk, step, 0);
        if (step >= ATTEND_AHEAD) {
            attend_add(chunk, added, attend->values + added * AMX_TILE_BYTES,
                       attend->value_panel_bytes, panels);
            added++;
        }
        attend_weigh_step(chunk, step, 4);
        attend_weigh_step(chunk, step, 8);
        if (ahead < steps) {
            attend_score(chunk, ahead, tiles / 2, tiles);
            attend_store_scores(chunk, ahead);
        }
        attend_weigh_step(chunk, step, 12);
        amx_order();
    }
    for (; added < steps; added++)
        attend_add_step(chunk, added, attend->values + added * AMX_TILE_BYTES, panels);
}

/* Computes the weighted values of `panels` panels of values from `panel` on, with the weights that
 * attend_steps has left in chunk->scores. */
static void attend_further_panels(struct attend_chunk *chunk, uint32_t panel, uint32_t panels)
{
    const unsigned char *values = chunk->attend->values + panel * chunk->attend->value_panel_bytes;
    attend_zero();
    for (uint32_t step = 0; step * ATTEND_STEP < chunk->keys; step++)
        attend_add_step(chunk, step, values + step * AMX_TILE_BYTES, panels);
}

/* Computes rows [first, first + rows) with attend_panels, and replaces the results of those rows
 * whose bit is set in `bits` (bit 0: row `first`). */
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

/* Returns the sum of the weights of each row, by multiplying the weights with a tile of ones. */
static lanes attend_sums(const struct attend_chunk *chunk)
{
    static const _Alignas(64) uint16_t ones[512] = {[0 ... 511] = 0x3f80};
    _Alignas(64) float sums[AMX_ROWS * 16];
    _tile_zero(0);
    _tile_loadd(7, ones, MR_PANEL_BYTES);
    for (uint32_t step = 0; step * ATTEND_STEP < chunk->keys; step++) {
        _tile_loadd(6, chunk->scores + 2 * step * ATTEND_SCORES, MR_PANEL_BYTES);
        _tile_dpbf16ps(0, 6, 7);
    }
    _tile_stored(0, sums, MR_PANEL_BYTES);
    amx_order();
    return attend_column(sums);
}

/* Returns a bit for each row that must be computed again by attend_panels. A correct sum of weights
 * is at least 1, the weight of the block's first key. */
static uint32_t attend_invalid(const struct attend_chunk *chunk, lanes sum, const uint32_t *begin)
{
    const __mmask16 active = attend_active(chunk);
    const __m512i late = _mm512_maskz_loadu_epi32(active, begin);
    const __mmask16 right = _mm512_cmp_ps_mask(sum, lanes_set(1.0f), _CMP_GE_OQ) &
                            _mm512_cmp_ps_mask(sum, lanes_set(ATTEND_LARGE), _CMP_LE_OQ);
    return (active & (__mmask16)~right) | _mm512_test_epi32_mask(late, late);
}

/* Computes query rows [first, first + rows), rows <= AMX_ROWS. Returns a bit for each row that must
 * be computed again (bit 0: row `first`). */
static uint32_t attend_chunk(const struct mr_cpu_attend *attend, uint32_t first, uint32_t rows)
{
    const uint32_t panels = attend->dim / MR_PANEL_COLUMNS;
    float *out = attend->out + (size_t)first * attend->dim;
    uint32_t least = MR_BLOCK_TOKENS;
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
        attend_further_panels(&chunk, panel, panels - panel < 4 ? panels - panel : 4);
        attend_store(&chunk, out + panel * MR_PANEL_COLUMNS,
                     panels - panel < 4 ? panels - panel : 4);
    }
    const lanes sum = attend_sums(&chunk);
    lanes_store_part(attend->sum + first, sum, rows);
    return attend_invalid(&chunk, sum, attend->begin + first);
}

/* The attention function of AMX. attend_panels replaces it for fp32, for K and V in int8, for soft
 * caps, for head sizes not divisible by 32, and for blocks smaller than a step. */
static void attend_tiles(const struct mr_cpu_attend *attend)
{
    if (!attend->bf16 || attend->key_scales || attend->dim % 32 != 0 || attend->softcap > 0.0f ||
        MR_BLOCK_TOKENS < ATTEND_STEP) {
        attend_panels(attend);
        return;
    }
    uint32_t configured = 0; /* number of rows for which the tile registers are configured */
    for (uint32_t first = 0; first < attend->rows; first += AMX_ROWS) {
        const uint32_t left = attend->rows - first, rows = left < AMX_ROWS ? left : AMX_ROWS;
        if (rows != configured) {
            const uint8_t n = (uint8_t)rows;
            amx_configure((const uint8_t[8]){n, n, n, n, n, n, n, 16});
        }
        configured = rows;
        const uint32_t again = attend_chunk(attend, first, rows);
        if (again == 0) continue;
        attend_again(attend, first, rows, again);
        configured = 0;
    }
    _tile_release();
}

#endif
