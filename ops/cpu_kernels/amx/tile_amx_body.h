/* tile_amx_body - the bf16 matrix product of level.h in the tile registers of AMX (Intel 64 and
 * IA-32 Architectures Software Developer's Manual, volume 1, chapter 18).
 *
 * Sixteen consecutive rows of a panel, as stored, are one AMX tile. Two tiles of rows are
 * multiplied by two panels, or one tile of rows by four, so that four accumulator tiles are in use.
 * An output is summed over sixteen words of depth at a time, the last sixteen padded with zeros, so
 * the bits of a row's outputs do not depend on the other rows. */
#ifndef MR_OPS_CPU_KERNELS_AMX_TILE_AMX_BODY_H
#define MR_OPS_CPU_KERNELS_AMX_TILE_AMX_BODY_H

#include "ops/cpu_kernels/level.h"
#include "ops/cpu_kernels/quant/amx.h"

#include <string.h>

#define AMX_WORDS      16u
#define AMX_TILE_BYTES (AMX_WORDS * MR_PANEL_BYTES)

#define AMX_INLINE static inline __attribute__((always_inline))

/* One or two tiles of rows of the left matrix, from `row` on, and the first of the panels by which
 * they are multiplied. */
struct amx_place {
    uint32_t row;
    uint32_t first, second; /* number of rows in the first and the second tile; second may be 0 */
    uint32_t panel;
};

/* Configures the tile registers: register i gets rows[i] rows of 64 bytes. Use of the registers: 0
 * to 3 accumulators, 4 and 5 rows of the left matrix, 6 and 7 panels. */
static void amx_configure(const uint8_t rows[8])
{
    amx_set_tiles(rows, (const uint16_t[8]){64, 64, 64, 64, 64, 64, 64, 64});
}

/* The operands of one AMX product: a points into the rows of the left matrix, b into the panels,
 * both at the same word of depth. */
struct amx_words {
    const unsigned char *a, *b;
    size_t a_stride, b_stride; /* bytes from row to row of a, and from panel to panel of b */
};

AMX_INLINE void amx_add(const struct amx_words x, const bool two, const uint32_t panels)
{
    _tile_loadd(4, x.a, x.a_stride);
    if (two) _tile_loadd(5, x.a + AMX_ROWS * x.a_stride, x.a_stride);
    _tile_loadd(6, x.b, MR_PANEL_BYTES);
    _tile_dpbf16ps(0, 4, 6);
    if (two) _tile_dpbf16ps(2, 5, 6);
    if (panels > 1) {
        _tile_loadd(7, x.b + x.b_stride, MR_PANEL_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        if (two) _tile_dpbf16ps(3, 5, 7);
    }
    if (panels == 4) {
        _tile_loadd(6, x.b + 2 * x.b_stride, MR_PANEL_BYTES);
        _tile_dpbf16ps(2, 4, 6);
        _tile_loadd(7, x.b + 3 * x.b_stride, MR_PANEL_BYTES);
        _tile_dpbf16ps(3, 4, 7);
    }
}

/* The same as amx_add for fewer than sixteen words of depth, padded with zeros. */
AMX_INLINE void amx_add_last(const struct amx_words x, uint32_t words, uint32_t rows,
                             const bool two, const uint32_t panels)
{
    _Alignas(64) unsigned char left[2 * AMX_TILE_BYTES] = {0}, right[4 * AMX_TILE_BYTES] = {0};
    for (uint32_t r = 0; r < rows; r++)
        memcpy(left + r * MR_PANEL_BYTES, x.a + r * x.a_stride, (size_t)words * 4u);
    for (uint32_t p = 0; p < panels; p++)
        memcpy(right + p * AMX_TILE_BYTES, x.b + p * x.b_stride, (size_t)words * MR_PANEL_BYTES);
    amx_order();
    amx_add((struct amx_words){left, right, MR_PANEL_BYTES, AMX_TILE_BYTES}, two, panels);
}

AMX_INLINE void amx_sums(const struct mr_cpu_tile *tile, const struct amx_place *place,
                         const bool two, const uint32_t panels)
{
    struct amx_words x = {tile->a + place->row * tile->a_stride_bytes,
                          tile->b + place->panel * tile->panel_bytes, tile->a_stride_bytes,
                          tile->panel_bytes};
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t k = 0; k < tile->word_count / AMX_WORDS; k++) {
        amx_add(x, two, panels);
        x.a += AMX_WORDS * 4u;
        x.b += AMX_TILE_BYTES;
    }
    if (tile->word_count % AMX_WORDS > 0)
        amx_add_last(x, tile->word_count % AMX_WORDS, place->first + place->second, two, panels);
    float *c = tile->c + place->row * tile->c_stride + place->panel * MR_PANEL_COLUMNS;
    const size_t c_bytes = tile->c_stride * sizeof *c;
    _tile_stored(0, c, c_bytes);
    if (panels > 1) _tile_stored(1, c + MR_PANEL_COLUMNS, c_bytes);
    if (panels == 4) {
        _tile_stored(2, c + 2 * MR_PANEL_COLUMNS, c_bytes);
        _tile_stored(3, c + 3 * MR_PANEL_COLUMNS, c_bytes);
    }
    if (!two) return;
    c += AMX_ROWS * tile->c_stride;
    _tile_stored(2, c, c_bytes);
    if (panels > 1) _tile_stored(3, c + MR_PANEL_COLUMNS, c_bytes);
}

static void amx_place_sums(const struct mr_cpu_tile *tile, const struct amx_place *place,
                           uint32_t panels)
{
    if (place->second > 0 && panels == 2)
        amx_sums(tile, place, true, 2);
    else if (place->second > 0)
        amx_sums(tile, place, true, 1);
    else if (panels == 4)
        amx_sums(tile, place, false, 4);
    else if (panels == 2)
        amx_sums(tile, place, false, 2);
    else
        amx_sums(tile, place, false, 1);
}

static void amx_configure_place(const struct amx_place *place)
{
    const uint8_t first = (uint8_t)place->first, second = (uint8_t)place->second;
    const uint8_t other = second > 0 ? second : first;
    amx_configure((const uint8_t[8]){first, first, other, other, first, other, 16, 16});
}

static void tile_bf16(const struct mr_cpu_tile *tile)
{
    struct amx_place place, configured = {0};
    for (place.panel = 0; place.panel < tile->panels;) {
        const uint32_t left = tile->panels - place.panel;
        const uint32_t panels = tile->rows <= AMX_ROWS && left >= 4 ? 4 : left >= 2 ? 2 : 1;
        for (place.row = 0; place.row < tile->rows; place.row += 2 * AMX_ROWS) {
            const uint32_t rows = tile->rows - place.row;
            place.first = rows < AMX_ROWS ? rows : AMX_ROWS;
            place.second = rows < 2 * AMX_ROWS ? rows - place.first : AMX_ROWS;
            if (place.first != configured.first || place.second != configured.second)
                amx_configure_place(&place);
            configured = place;
            amx_place_sums(tile, &place, panels);
        }
        place.panel += panels;
    }
    _tile_release();
}

#endif
