/* tile_amx_body - the product of quant.h in the tile registers of AMX
 * (ops/cpu_kernels/quant/amx.h), for many rows.
 *
 * An instruction multiplies a tile of signed bytes, up to 16 rows of x, with one of unsigned bytes,
 * codes of 16 columns, and adds the products to int32. A scale of x belongs to 16 inputs, so a
 * product is 16 inputs deep: the four unpacked lines of half a group are one tile, and the integers
 * of both halves of a group are stored to memory, where the vector unit scales them in the order of
 * quant.h. The tile unit meanwhile multiplies the next group: a group of 16 rows takes it 32
 * cycles, the vector unit about 40. AVX-512 VNNI takes 104 for the same; below AMX_ROWS_LEAST rows
 * it is not slower. These figures are counted, not measured. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_TILE_AMX_BODY_H
#define MR_OPS_CPU_KERNELS_QUANT_TILE_AMX_BODY_H

#include "ops/cpu_kernels/quant/amx.h"
#include "ops/cpu_kernels/quant/read_body.h"

#define AMX_ROWS_LEAST 8u

/* The integers of half a group: [row][column]. */
typedef int32_t amx_sums[AMX_ROWS][MR_QUANT_COLUMNS];

/* Multiplies group i of an unpacked panel with the rows of a place: tile registers 0 and 1 are
 * sums, 2 and 3 rows of x, 4 and 5 codes. */
INLINE void amx_group(const struct quant_place *at, amx_sums whole[2])
{
    amx_order();
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, at->x, at->x_stride);
    _tile_loadd(4, at->lines, MR_QUANT_LINE);
    _tile_dpbsud(0, 2, 4);
    _tile_loadd(3, at->x + 16, at->x_stride);
    _tile_loadd(5, at->lines + 4 * MR_QUANT_LINE, MR_QUANT_LINE);
    _tile_dpbsud(1, 3, 5);
    _tile_stored(0, whole[0], sizeof whole[0][0]);
    _tile_stored(1, whole[1], sizeof whole[1][0]);
    amx_order();
}

/* The integers of half a group of a row, less the codes' offset, times the row's scale. */
INLINE floats amx_scaled(const struct mr_quant_shape shape, const struct quant_place *at,
                         const amx_sums whole[2], uint32_t row, const uint32_t half)
{
    const ints start = ints_start(quant_minus(shape, at, row, half), shape);
    return floats_from(ints_add(ints_load(whole[half][row]), start));
}

/* Adds one group to the outputs of a row, in the order of quant_add in quant_body.h. */
INLINE floats amx_add(const struct mr_quant_shape shape, const struct quant_place *at,
                      const amx_sums whole[2], uint32_t row, const struct quant_factors f,
                      floats sum)
{
    const struct mr_quant_group *group = quant_group(at, row);
    const floats first = amx_scaled(shape, at, whole, row, 0);
    const floats second = amx_scaled(shape, at, whole, row, 1);
    const floats by = floats_set(group->scale[0]), second_by = floats_set(group->scale[1]);
    const floats scaled = floats_mul(first, by);
    if (shape.scales == MR_SCALES_BLOCK_16) {
        sum = floats_fma(scaled, f.scale, sum);
        return floats_fma(floats_mul(second, second_by), f.other, sum);
    }
    sum = floats_fma(floats_fma(second, second_by, scaled), f.scale, sum);
    if (shape.scales == MR_SCALES_HALF_LOW || shape.scales == MR_SCALES_BLOCK_LOW)
        sum = floats_fma(f.other, floats_set(group->scaled_sum), sum);
    return sum;
}

/* Adds the groups of a place, which are unpacked, to the outputs of up to 16 rows. */
INLINE void amx_rows(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                     struct quant_place at, uint32_t rows)
{
    _Alignas(64) amx_sums whole[2];
    _Alignas(64) float sums[AMX_ROWS][MR_QUANT_COLUMNS];
    for (uint32_t r = 0; r < rows; r++)
        floats_store(sums[r],
                     at.first > 0 ? floats_load(at.c + r * tile->c_stride) : floats_set(0.0f));
    for (uint32_t g = at.first; g < at.end; g++) {
        amx_group(&at, whole);
        const struct quant_factors f = quant_factors_at(shape, &at, 0, true);
        for (uint32_t r = 0; r < rows; r++)
            floats_store(sums[r], amx_add(shape, &at, whole, r, f, floats_load(sums[r])));
        quant_next(shape, &at, g);
    }
    for (uint32_t r = 0; r < rows; r++)
        floats_store(at.c + r * tile->c_stride, floats_load(sums[r]));
}

static void amx_set_rows(uint32_t rows)
{
    const uint8_t n = (uint8_t)rows;
    amx_set_tiles((const uint8_t[8]){n, n, n, n, 4, 4},
                  (const uint16_t[8]){64, 64, 16, 16, 64, 64});
}

/* Prefetches the codes that are unpacked after those of a place. */
INLINE void amx_prefetch(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                         const struct quant_place *from, const uint32_t panels)
{
    const size_t part = (size_t)READY_GROUPS * mr_quant_group_lines(&shape);
    if (from->end == tile->group_count) return;
    for (uint32_t p = 0; p < panels; p++)
        for (size_t i = 0; i < part; i += MR_QUANT_LINE)
            bytes_prefetch(from->lines + p * tile->panel_bytes + part + i);
}

/* Unpacks one or two panels a few groups at a time and multiplies them with all rows, which are cut
 * into tiles of nearly equal height. */
INLINE void amx_panels(const struct mr_quant_tile *tile, const struct mr_quant_shape shape,
                       uint32_t panel, const uint32_t panels)
{
    const struct mr_quant_shape ready_shape = {8, shape.most, shape.shift, NULL, shape.scales,
                                               0, 0};
    const uint32_t tiles = (tile->rows + AMX_ROWS - 1) / AMX_ROWS;
    const uint32_t height = tile->rows / tiles, taller = tile->rows % tiles;
    uint32_t configured = 0;
    struct quant_ready ready;
    for (uint32_t first = 0, end; first < tile->group_count; first = end) {
        end = first + READY_GROUPS < tile->group_count ? first + READY_GROUPS : tile->group_count;
        const struct quant_place from = quant_start_at(tile, shape, panel, first, end);
        quant_unpack(shape, from, panels, &ready);
        amx_prefetch(tile, shape, &from, panels);
        for (uint32_t i = 0, row = 0, rows; i < tiles; i++, row += rows) {
            rows = height + (i < taller);
            if (rows != configured) amx_set_rows(rows);
            configured = rows;
            for (uint32_t p = 0; p < panels; p++) {
                struct quant_place at = quant_start(tile, shape, row, panel + p);
                at.x += (size_t)first * MR_QUANT_GROUP;
                at.groups += first * sizeof(struct mr_quant_group);
                at.lines = ready.lines[p][0];
                at.factors = ready.factors[p][0][0];
                at.first = first;
                at.end = end;
                amx_rows(tile, ready_shape, at, rows);
            }
        }
    }
}

INLINE void amx_all(const struct mr_quant_tile *tile, const struct mr_quant_shape shape)
{
    uint32_t panel = 0;
    for (; panel + 2 <= tile->panels; panel += 2)
        amx_panels(tile, shape, panel, 2);
    if (panel < tile->panels) amx_panels(tile, shape, panel, 1);
    _tile_release();
}

#endif
