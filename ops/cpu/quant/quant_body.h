/* quant_body - the functions of struct mr_quant_ops, in the vectors that the including file
 * defines: bytes  64 unsigned bytes, a line of a panel       ints  16 int32       floats  16 floats
 * and TILE_ROWS, TILE_ROWS_2, TILE_ROWS_4: the most rows of a tile of one, two and four panels.
 *
 * A tile keeps its outputs in registers while it goes through the groups. In a group the sums of
 * integers start at minus the offset times the sum of the row's bytes, so that codes need not be
 * made signed. */
#ifndef MR_OPS_CPU_QUANT_BODY_H
#define MR_OPS_CPU_QUANT_BODY_H

#include "ops/cpu/quant/quant.h"

#define INLINE static inline __attribute__((always_inline))

#define PREFETCH_BYTES 1024u

/* ---- quantizing rows ---- */

/* Quantizes 16 numbers; returns the sum of the bytes. */
INLINE int32_t quant_half(floats x, float *scale, unsigned char *out)
{
    const float top = floats_magnitude(x);
    if (!(top >= 0x1p-100f && top <= 0x1.fffffep127f)) { /* as good as zero, or not finite */
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
        group->minus[half] = (int16_t)-sum;
        if (half == 0) continue;
        group->scaled_sum =
            group->scale[0] * (float)-group->minus[0] + group->scale[1] * (float)sum;
        group++;
    }
}

/* ---- the product ---- */

/* Returns word j of a group as unsigned bytes: inputs 4j..4j+3 of each column. */
INLINE bytes quant_codes(const struct mr_quant_shape shape, const unsigned char *lines,
                         const uint32_t j)
{
    if (shape.bits == 8) return bytes_load(lines + j * MR_QUANT_LINE);
    const bytes line = bytes_load(lines + j % 4 * MR_QUANT_LINE);
    bytes codes = j < 4 ? bytes_low(line) : bytes_high(line);
    if (shape.values) codes = bytes_look_up(codes, shape.values);
    if (shape.bits == 5)
        codes = bytes_or(codes, bytes_bits(bytes_load(lines + 4 * MR_QUANT_LINE), j, 1));
    if (shape.bits == 6)
        codes = bytes_or(codes,
                         bytes_bits(bytes_load(lines + (4 + j / 4) * MR_QUANT_LINE), j % 4 * 2, 3));
    return codes;
}

/* The scales of a group of a panel, and what is added or subtracted. */
struct quant_factors {
    floats scale, other; /* other: second scale of Q6_K, or the minimum */
};

INLINE struct quant_factors quant_factors(const struct mr_quant_shape shape,
                                          const unsigned char *scales, const unsigned char *blocks)
{
    struct quant_factors f;
    f.scale = f.other = floats_set(0.0f);
    switch (shape.scales) {
    case MR_SCALES_COLUMN:
        break;
    case MR_SCALES_HALF:
        f.scale = floats_halves(scales);
        break;
    case MR_SCALES_BF16:
        f.scale = floats_bf16(scales);
        break;
    case MR_SCALES_HALF_LOW:
        f.scale = floats_halves(scales);
        f.other = floats_halves(scales + 32);
        break;
    case MR_SCALES_BLOCK_LOW:
        f.scale = floats_mul(floats_halves(blocks), floats_unsigned(scales));
        f.other = floats_mul(floats_halves(blocks + 32), floats_unsigned(scales + 16));
        break;
    case MR_SCALES_BLOCK_EACH:
        f.scale = floats_mul(floats_halves(blocks), floats_signed(scales));
        break;
    case MR_SCALES_BLOCK_16:
        f.scale = floats_mul(floats_halves(blocks), floats_signed(scales));
        f.other = floats_mul(floats_halves(blocks), floats_signed(scales + 16));
        break;
    }
    return f;
}

/* Where a register tile is, within one group. */
struct quant_place {
    const unsigned char *x, *groups; /* of the first row */
    size_t x_stride;
    const unsigned char *lines; /* of the first panel */
    size_t panel_bytes;
};

INLINE const struct mr_quant_group *quant_group(const struct quant_place *at, uint32_t row)
{
    return (const struct mr_quant_group *)(const void *)(at->groups + row * at->x_stride);
}

/* Height and width of a register tile: constants wherever a function with one is inlined. */
struct quant_size {
    uint32_t rows, panels;
};

/* Adds the first or the second 16 inputs of a group to the outputs. */
INLINE void quant_add(const struct mr_quant_shape shape, const struct quant_place *at,
                      const struct quant_size size, const uint32_t half, const floats scale[4],
                      floats sum[TILE_ROWS][4])
{
    ints whole[TILE_ROWS][4];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++) {
        const struct mr_quant_group *group = quant_group(at, r);
        const ints start = ints_start(shape.shift > 0 ? group->minus[half] * (1 << shape.shift) : 0,
                                      shape.bits, shape.shift);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++)
            whole[r][p] = start;
    }
#pragma GCC unroll 16
    for (uint32_t j = half * 4; j < half * 4 + 4; j++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++) {
            const unsigned char *lines = at->lines + p * at->panel_bytes;
            if (j < 4 || shape.bits == 8)
                bytes_prefetch(lines + j * MR_QUANT_LINE + PREFETCH_BYTES);
            const bytes codes = quant_codes(shape, lines, j);
#pragma GCC unroll 16
            for (uint32_t r = 0; r < size.rows; r++)
                whole[r][p] = ints_dot(whole[r][p], codes, at->x + r * at->x_stride + j * 4u,
                                       shape.bits, shape.shift);
        }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++) {
        const floats by = floats_set(quant_group(at, r)->scale[half]);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++) {
            floats product = floats_from(whole[r][p]);
            if (shape.scales != MR_SCALES_COLUMN) product = floats_mul(product, scale[p]);
            sum[r][p] = floats_add(sum[r][p], floats_mul(product, by));
        }
    }
}

/* Adds the minimums of a group times the sum of the row's numbers. */
INLINE void quant_lower(const struct mr_quant_shape shape, const struct quant_place *at,
                        const struct quant_size size, const floats low[4], floats sum[TILE_ROWS][4])
{
#pragma GCC unroll 16
    for (uint32_t r = 0; r < size.rows; r++) {
        const floats by = floats_set(quant_group(at, r)->scaled_sum);
#pragma GCC unroll 16
        for (uint32_t p = 0; p < size.panels; p++) {
            const floats product = floats_mul(low[p], by);
            sum[r][p] = shape.scales == MR_SCALES_HALF_LOW ? floats_add(sum[r][p], product)
                                                           : floats_sub(sum[r][p], product);
        }
    }
}

/* Computes one register tile. shape, rows and panels are constants wherever it is inlined. */
INLINE void quant_sums(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                       uint32_t row, uint32_t panel, const uint32_t rows, const uint32_t panels)
{
    const struct mr_quant_parts parts = mr_quant_parts_of(&shape, tile->group_count);
    const unsigned char *b = tile->b + panel * tile->panel_bytes;
    struct quant_place at = {.x = tile->x + row * tile->x_stride,
                             .x_stride = tile->x_stride,
                             .lines = b,
                             .panel_bytes = tile->panel_bytes};
    const struct quant_size size = {rows, panels};
    at.groups = at.x + (size_t)tile->group_count * MR_QUANT_GROUP;
    floats sum[TILE_ROWS][4];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++)
            sum[r][p] = floats_set(0.0f);
    for (uint32_t g = 0; g < tile->group_count; g++) {
        floats scale[4], other[4];
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++) {
            const unsigned char *from = b + p * tile->panel_bytes;
            const struct quant_factors f = quant_factors(
                shape, from + parts.scales + (size_t)g * shape.group_bytes,
                from + parts.blocks + (size_t)(g / MR_QUANT_GROUPS_EACH) * shape.block_bytes);
            scale[p] = f.scale;
            other[p] = f.other;
        }
        quant_add(shape, &at, size, 0, scale, sum);
        quant_add(shape, &at, size, 1, shape.scales == MR_SCALES_BLOCK_16 ? other : scale, sum);
        if (shape.scales == MR_SCALES_HALF_LOW || shape.scales == MR_SCALES_BLOCK_LOW)
            quant_lower(shape, &at, size, other, sum);
        at.x += MR_QUANT_GROUP;
        at.groups += sizeof(struct mr_quant_group);
        at.lines += mr_quant_group_lines(&shape);
    }
    float *c = tile->c + row * tile->c_stride + panel * MR_QUANT_COLUMNS;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++) {
            if (shape.scales == MR_SCALES_COLUMN)
                sum[r][p] =
                    floats_mul(sum[r][p], floats_load(b + p * tile->panel_bytes + parts.columns));
            floats_store(c + r * tile->c_stride + p * MR_QUANT_COLUMNS, sum[r][p]);
        }
}

/* One copy of quant_sums for each height, so that every sum has a fixed register. */
#define QUANT_CASE(n)                                                                              \
    case n:                                                                                        \
        if ((n) <= most) quant_sums(tile, shape, row, panel, (n), panels);                         \
        break;

INLINE void quant_rows(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                       uint32_t row, uint32_t panel, uint32_t rows, const uint32_t panels)
{
    const uint32_t most = panels == 4 ? TILE_ROWS_4 : panels == 2 ? TILE_ROWS_2 : TILE_ROWS;
    switch (rows) {
        QUANT_CASE(1)
        QUANT_CASE(2)
        QUANT_CASE(3)
        QUANT_CASE(4)
        QUANT_CASE(5)
        QUANT_CASE(6)
    }
}

/* Cuts the rows into tiles of nearly equal height, which all use the same panels before the next
 * panels are read. */
INLINE void quant_all(const struct mr_quant_tile *tile, const struct mr_quant_shape shape)
{
    const uint32_t tiles = (tile->rows + TILE_ROWS - 1) / TILE_ROWS;
    if (tiles == 0) return;
    const uint32_t height = tile->rows / tiles, taller = tile->rows % tiles;
    const uint32_t most = height + (taller > 0);
    for (uint32_t panel = 0; panel < tile->panels;) {
        const uint32_t left = tile->panels - panel;
        const uint32_t width = most <= TILE_ROWS_4 && left >= 4   ? 4
                               : most <= TILE_ROWS_2 && left >= 2 ? 2
                                                                  : 1;
        for (uint32_t i = 0, row = 0; i < tiles; i++) {
            const uint32_t rows = height + (i < taller);
            if (width == 4)
                quant_rows(tile, shape, row, panel, rows, 4);
            else if (width == 2)
                quant_rows(tile, shape, row, panel, rows, 2);
            else
                quant_rows(tile, shape, row, panel, rows, 1);
            row += rows;
        }
        panel += width;
    }
}

#define QUANT_FORMAT(name)                                                                         \
    static void quant_##name(const struct mr_quant_tile *tile)                                     \
    {                                                                                              \
        quant_all(tile, mr_quant_shapes[MR_QUANT_##name]);                                         \
    }
QUANT_FORMAT(INT8)
QUANT_FORMAT(Q8_0)
QUANT_FORMAT(Q4_0)
QUANT_FORMAT(Q4_1)
QUANT_FORMAT(Q5_0)
QUANT_FORMAT(Q5_1)
QUANT_FORMAT(Q4_K)
QUANT_FORMAT(Q5_K)
QUANT_FORMAT(Q6_K)
QUANT_FORMAT(IQ4_NL)
QUANT_FORMAT(IQ4_XS)
QUANT_FORMAT(MXFP4)

static void quant_tile(const struct mr_quant_tile *tile)
{
    static void (*const formats[MR_QUANT_COUNT])(const struct mr_quant_tile *) = {
        [MR_QUANT_INT8] = quant_INT8,     [MR_QUANT_Q8_0] = quant_Q8_0,
        [MR_QUANT_Q4_0] = quant_Q4_0,     [MR_QUANT_Q4_1] = quant_Q4_1,
        [MR_QUANT_Q5_0] = quant_Q5_0,     [MR_QUANT_Q5_1] = quant_Q5_1,
        [MR_QUANT_Q4_K] = quant_Q4_K,     [MR_QUANT_Q5_K] = quant_Q5_K,
        [MR_QUANT_Q6_K] = quant_Q6_K,     [MR_QUANT_IQ4_NL] = quant_IQ4_NL,
        [MR_QUANT_IQ4_XS] = quant_IQ4_XS, [MR_QUANT_MXFP4] = quant_MXFP4,
    };
    formats[tile->format](tile);
}

const struct mr_quant_ops TABLE = {.row = quant_row, .tile = quant_tile};

#endif
