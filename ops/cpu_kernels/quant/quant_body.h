/* quant_body - the functions of struct mr_quant_ops for one instruction set.
 *
 * Needs, defined before it is included: the vector types `bytes` (64 unsigned bytes, a line of a
 * panel), `ints` (16 int32) and `floats` (16 floats) with their functions; TILE_ROWS, TILE_ROWS_2
 * and TILE_ROWS_4, the most rows of a tile of one, two and four panels; TILES_UNPACKED. With
 * TILES_UNPACKED tiles or more, panels of 5 or 6 bits are unpacked for them, and with four times as
 * many those of 4 bits (Zen 4, 128 rows: 1.05 times as fast; 16 rows: 0.9).
 *
 * A tile keeps its outputs in registers while it goes through the groups. In a group the sums of
 * integers start at minus the offset times the sum of the row's bytes, so that codes can stay
 * unsigned. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_QUANT_BODY_H
#define MR_OPS_CPU_KERNELS_QUANT_QUANT_BODY_H

#include "ops/cpu_kernels/quant/read_body.h"

/* ---- quantizing rows ---- */

/* Quantizes 16 numbers; returns the sum of the bytes. */
INLINE int32_t quant_half(floats x, float *scale, unsigned char *out)
{
    const float top = floats_magnitude(x);
    if (!(top >= 0x1p-100f && top <= 0x1.fffffep127f)) { /* negligible, or not finite */
        memset(out, 0, 16);
        *scale = top < 0x1p-100f ? 0.0f : __builtin_nanf("");
        return 0;
    }
    *scale = top / 127.0f;
    return ints_put(floats_round(floats_mul(x, floats_set(127.0f / top))), out);
}

static void quant_row(const void *x, uint32_t in_size, bool bf16, unsigned char *out)
{
    const uint32_t groups = mr_quant_group_count(in_size);
    struct mr_quant_group *group =
        (struct mr_quant_group *)(void *)(out + (size_t)groups * MR_QUANT_GROUP);
    for (uint32_t i = 0; i < groups * 2; i++, out += 16) {
        const uint32_t left = in_size > i * 16 ? in_size - i * 16 : 0, half = i % 2;
        const floats part = floats_of(x, (size_t)i * 16, left < 16 ? left : 16, bf16);
        const int32_t sum = quant_half(part, &group->scale[half], out);
        group->minus[half] = -sum;
        if (half == 0) continue;
        group->scaled_sum =
            group->scale[0] * (float)-group->minus[0] + group->scale[1] * (float)sum;
        group++;
    }
}

/* ---- the product ---- */

/* Height and width of a register tile: constants wherever a function with one is inlined. */
struct quant_size {
    uint32_t rows, panels;
};

/* The scaled integers of a tile, or its outputs. */
typedef floats quant_outputs[TILE_ROWS][4];

/* Multiplies the first or the second 16 inputs of a group: the sums of integers, each times its
 * row's scale, are put into `out` or added to it. */
INLINE void quant_dots(const struct mr_quant_shape shape, const struct quant_place *at,
                       const struct quant_size size, const uint32_t half, const bool add,
                       quant_outputs out)
{
    ints whole[TILE_ROWS][4];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++) {
        const ints start = ints_start(quant_minus(shape, at, r, half), shape);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            whole[r][p] = start;
    }
#pragma GCC unroll 16
    for (uint32_t j = half * 4; j < half * 4 + 4; j++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++) {
            const bytes codes = quant_codes(shape, at->lines + p * at->lines_stride, j);
#pragma GCC unroll 16
            for (uint32_t r = 0; r < size.rows; r++)
                whole[r][p] =
                    ints_dot(whole[r][p], codes, at->x + r * at->x_stride + j * 4u, shape);
        }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++) {
        const floats by = floats_set(quant_group(at, r)->scale[half]);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++) {
            const floats sum =
                floats_from(ints_end(whole[r][p], quant_minus(shape, at, r, half), shape));
            out[r][p] = add ? floats_fma(sum, by, out[r][p]) : floats_mul(sum, by);
        }
    }
}

/* Adds to the outputs of a tile: scaled integers times the weights' scales. */
INLINE void quant_scale(const struct quant_size size, const quant_outputs scaled,
                        const floats scale[4], quant_outputs sum)
{
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            sum[r][p] = floats_fma(scaled[r][p], scale[p], sum[r][p]);
}

/* Adds the constant part of the weights of a group, times the sum of the row's numbers. */
INLINE void quant_lower(const struct quant_place *at, const struct quant_size size,
                        const floats low[4], quant_outputs sum)
{
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++) {
        const floats by = floats_set(quant_group(at, r)->scaled_sum);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            sum[r][p] = floats_fma(low[p], by, sum[r][p]);
    }
}

/* Adds one group to the outputs. */
INLINE void quant_add(const struct mr_quant_shape shape, const struct quant_place *at,
                      const struct quant_size size, const struct quant_factors f[4],
                      quant_outputs sum)
{
    quant_outputs scaled;
    floats scale[4], other[4];
#pragma GCC unroll 16
    for (uint32_t p = 0; p < size.panels; p++) {
        scale[p] = f[p].scale;
        other[p] = f[p].other;
    }
    quant_dots(shape, at, size, 0, false, scaled);
    if (shape.scales == MR_SCALES_BLOCK_16) {
        quant_scale(size, scaled, scale, sum);
        quant_dots(shape, at, size, 1, false, scaled);
        quant_scale(size, scaled, other, sum);
        return;
    }
    quant_dots(shape, at, size, 1, true, scaled);
    quant_scale(size, scaled, scale, sum);
    if (shape.scales == MR_SCALES_HALF_LOW || shape.scales == MR_SCALES_BLOCK_LOW)
        quant_lower(at, size, other, sum);
}

INLINE void quant_prefetch(const struct quant_place *at, const struct quant_size size)
{
#pragma GCC unroll 16
    for (uint32_t p = 0; p < size.panels; p++)
        for (size_t i = 0; i < at->ahead_step; i += MR_QUANT_LINE) {
            const unsigned char *line = at->ahead + p * at->panel_bytes + i;
            if (at->ahead_far)
                bytes_prefetch_far(line);
            else
                bytes_prefetch(line);
        }
}

/* Computes one register tile. shape, size and ready are constants wherever it is inlined. */
INLINE void quant_sums(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                       struct quant_place at, const struct quant_size size, const bool ready)
{
    quant_outputs sum;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            sum[r][p] = ready && at.first > 0
                            ? floats_load(at.c + r * tile->c_stride + p * MR_QUANT_COLUMNS)
                            : floats_set(0.0f);
    for (uint32_t g = at.first; g < at.end; g++) {
        struct quant_factors f[4];
        quant_prefetch(&at, size);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            f[p] = quant_factors_at(shape, &at, p, ready);
        quant_add(shape, &at, size, f, sum);
        quant_next(shape, &at, g);
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            floats_store(at.c + r * tile->c_stride + p * MR_QUANT_COLUMNS, sum[r][p]);
}

/* One copy of quant_sums for each height, so that every sum has a fixed register. */
#define QUANT_CASE(n)                                                                              \
    case n:                                                                                        \
        if ((n) <= most) quant_sums(tile, shape, at, (struct quant_size){(n), panels}, ready);     \
        break;

INLINE void quant_rows(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                       const struct quant_place at, uint32_t rows, const uint32_t panels,
                       const bool ready)
{
    const uint32_t most = panels == 4 ? TILE_ROWS_4 : panels == 2 ? TILE_ROWS_2 : TILE_ROWS;
    switch (rows) {
        QUANT_CASE(1)
        QUANT_CASE(2)
        QUANT_CASE(3)
        QUANT_CASE(4)
    }
}

/* The rows of a tile, cut into register tiles of nearly equal height, which all use the same panels
 * before the next panels are read. */
struct quant_cut {
    uint32_t tiles, height, taller; /* the first `taller` tiles have one row more */
};

/* Each tile prefetches its share of the next panels, including scales. One or two tiles read panels
 * at the speed of memory and prefetch into L2: one row of the 1.1 B shapes in Q4_K takes 3.0 ms on
 * one core of a Zen 4, and took 4.7 ms when a tile prefetched its own panels into L1, 4 KB ahead.
 * More tiles prefetch into L1, because four tiles of int8 that read from L2 take 1.15 times as
 * long. */
INLINE void quant_direct(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                         const struct quant_cut cut, uint32_t panel, const uint32_t width)
{
    const size_t each = tile->panel_bytes / cut.tiles;
    for (uint32_t i = 0, row = 0; i < cut.tiles; i++) {
        const uint32_t rows = cut.height + (i < cut.taller);
        struct quant_place at = quant_start(tile, shape, row, panel);
        at.ahead_step = each / tile->group_count;
        at.ahead_far = cut.tiles <= 2;
        if (panel + 2 * width <= tile->panels_ahead)
            at.ahead += width * tile->panel_bytes + each * i;
        else
            at.ahead_step = 0;
        quant_rows(tile, shape, at, rows, width, false);
        row += rows;
    }
}

/* Many rows: two panels are unpacked a few groups at a time, and multiplied with all rows. */
INLINE void quant_unpacked(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                           const struct quant_cut cut, uint32_t panel)
{
    const struct mr_quant_shape bytes_shape = {8, shape.most, shape.shift, NULL, shape.scales,
                                               0, 0};
    const uint32_t lines_bytes = mr_quant_group_lines(&shape);
    struct quant_ready ready;
    for (uint32_t first = 0, end; first < tile->group_count; first = end) {
        end = first + READY_GROUPS < tile->group_count ? first + READY_GROUPS : tile->group_count;
        const struct quant_place from = quant_start_at(tile, shape, panel, first, end);
        quant_unpack(shape, from, 2, &ready);
        for (uint32_t i = 0, row = 0; i < cut.tiles; i++) {
            const uint32_t rows = cut.height + (i < cut.taller);
            struct quant_place at = quant_start(tile, shape, row, panel);
            at.x += (size_t)first * MR_QUANT_GROUP;
            at.groups += first * sizeof(struct mr_quant_group);
            at.lines = ready.lines[0][0];
            at.lines_stride = sizeof ready.lines[0];
            at.factors = ready.factors[0][0][0];
            at.first = first;
            at.end = end;
            at.ahead = from.lines + READY_GROUPS * lines_bytes +
                       READY_GROUPS * lines_bytes / cut.tiles * i;
            if (end == tile->group_count) at.ahead += 2 * tile->panel_bytes - end * lines_bytes;
            at.ahead_step = lines_bytes / cut.tiles;
            if (end == tile->group_count && panel + 4 > tile->panels_ahead) at.ahead_step = 0;
            quant_rows(tile, bytes_shape, at, rows, 2, true);
            row += rows;
        }
    }
}

INLINE void quant_all(const struct mr_quant_tile *tile, const struct mr_quant_shape shape)
{
    const uint32_t tiles = (tile->rows + TILE_ROWS - 1) / TILE_ROWS;
    if (tiles == 0) return;
    const struct quant_cut cut = {tiles, tile->rows / tiles, tile->rows % tiles};
    const uint32_t most = cut.height + (cut.taller > 0);
    for (uint32_t panel = 0, width; panel < tile->panels; panel += width) {
        const uint32_t left = tile->panels - panel;
        width = most <= TILE_ROWS_4 && left >= 4 ? 4 : most <= TILE_ROWS_2 && left >= 2 ? 2 : 1;
        if (width == 4)
            quant_direct(tile, shape, cut, panel, 4);
        else if (width == 2 && shape.bits < 8 &&
                 tiles >= (shape.bits > 4 ? TILES_UNPACKED : 4 * TILES_UNPACKED))
            quant_unpacked(tile, shape, cut, panel);
        else if (width == 2)
            quant_direct(tile, shape, cut, panel, 2);
        else
            quant_direct(tile, shape, cut, panel, 1);
    }
}

#define QUANT_ALL quant_all
#include "ops/cpu_kernels/quant/table_body.h"

#endif
