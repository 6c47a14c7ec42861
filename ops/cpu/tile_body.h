/* tile_body - the matrix product of level.h over the 16 lanes of the including file.
 *
 * A register tile holds rows x panels sums. Tall tiles (many rows, few panels) read little of b and
 * serve batches and prompts; wide tiles (few rows, many panels) keep enough independent chains in
 * flight to hide the multiply's latency when there are few rows. The including file says what its
 * registers hold:
 *     TILE_ROWS                               rows of the tallest tile, one panel wide
 *     TILE_ROWS_2, TILE_ROWS_4, TILE_ROWS_8   most rows of a tile 2, 4 and 8 panels wide
 *     TILE_F32_ONLY                           (defined) it has a product of bf16 of its own */
#ifndef MR_OPS_CPU_TILE_BODY_H
#define MR_OPS_CPU_TILE_BODY_H

#include "ops/cpu/level.h"

#define TILE_INLINE static inline __attribute__((always_inline))

/* A register tile's place, and where it asks for lines to come, so that memory and multipliers work
 * at the same time. With several tiles to a group of panels, each calls its share of the next group
 * (16 rows: 0.36 to 0.29 ms a layer, 32 rows: 0.60 to 0.53); a single tile runs through the panels
 * as memory delivers them and only asks a little ahead. Into the first level cache: what was called
 * into the second alone came no earlier than without asking. */
struct tile_place {
    uint32_t row, panel;
    const unsigned char *ahead;
    size_t ahead_step; /* bytes for every word of depth */
};

/* Sums of one register tile; rows, panels and bf16 are constants where this is inlined. */
TILE_INLINE void tile_sums(const struct mr_cpu_tile *tile, const struct tile_place place,
                           const uint32_t rows, const uint32_t panels, const bool bf16)
{
    const unsigned char *a = tile->a + place.row * tile->a_stride_bytes;
    const unsigned char *b = tile->b + place.panel * tile->panel_bytes;
    const size_t a_stride = tile->a_stride_bytes, b_stride = tile->panel_bytes;
    lanes sum[TILE_ROWS][8];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++)
            sum[r][p] = lanes_set(0.0f);
    for (uint32_t k = 0; k < tile->word_count; k++) {
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++) {
            lanes_raw right = lanes_raw_load(b + p * b_stride + (size_t)k * MR_PANEL_BYTES);
            lanes_prefetch(place.ahead + p * b_stride + k * place.ahead_step);
#pragma GCC unroll 16
            for (uint32_t r = 0; r < rows; r++) {
                lanes_raw left = lanes_raw_word(a + r * a_stride + (size_t)k * 4u);
                sum[r][p] = lanes_dot(sum[r][p], left, right, bf16);
            }
        }
    }
    float *c = tile->c + place.row * tile->c_stride + place.panel * MR_PANEL_COLUMNS;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++)
            lanes_store(c + r * tile->c_stride + p * MR_PANEL_COLUMNS, sum[r][p]);
}

/* One function for each number of rows, so that every sum has a register of its own. */
#define TILE_CASE(n)                                                                               \
    case n:                                                                                        \
        if ((n) <= most) tile_sums(tile, place, (n), panels, bf16);                                \
        break;

TILE_INLINE void tile_rows(const struct mr_cpu_tile *tile, const struct tile_place place,
                           uint32_t rows, const uint32_t panels, const bool bf16)
{
    const uint32_t most = panels == 8   ? TILE_ROWS_8
                          : panels == 4 ? TILE_ROWS_4
                          : panels == 2 ? TILE_ROWS_2
                                        : TILE_ROWS;
    switch (rows) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
#if TILE_ROWS > 4
        TILE_CASE(5)
        TILE_CASE(6)
        TILE_CASE(7)
        TILE_CASE(8)
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
#endif
    }
}

#define TILE_NEAR_BYTES 1024u

/* Tells the i-th of `tiles` tiles of a group what to call. Without a next group it asks again for
 * lines that are there. */
TILE_INLINE void tile_look_ahead(const struct mr_cpu_tile *tile, struct tile_place *place,
                                 uint32_t width, uint32_t i, uint32_t tiles)
{
    place->ahead = tile->b + place->panel * tile->panel_bytes;
    place->ahead_step = MR_PANEL_BYTES;
    if (tiles == 1) {
        place->ahead += TILE_NEAR_BYTES;
    } else if (place->panel + 2 * width <= tile->panels_ahead) {
        place->ahead += width * tile->panel_bytes + tile->panel_bytes / tiles * i;
        place->ahead_step = MR_PANEL_BYTES / tiles;
    }
}

/* The rows are cut into tiles of nearly equal height; a panel group meets all of them while it is
 * in the nearest cache. */
TILE_INLINE void tile_all(const struct mr_cpu_tile *tile, const bool bf16)
{
    const uint32_t tiles = (tile->rows + TILE_ROWS - 1) / TILE_ROWS;
    if (tiles == 0) return;
    const uint32_t height = tile->rows / tiles, taller = tile->rows % tiles;
    const uint32_t most = height + (taller > 0);
    for (uint32_t panel = 0; panel < tile->panels;) {
        const uint32_t left = tile->panels - panel;
        const uint32_t width = most <= TILE_ROWS_8 && left >= 8   ? 8
                               : most <= TILE_ROWS_4 && left >= 4 ? 4
                               : most <= TILE_ROWS_2 && left >= 2 ? 2
                                                                  : 1;
        for (uint32_t i = 0, row = 0; i < tiles; i++) {
            const uint32_t rows = height + (i < taller);
            struct tile_place place = {.row = row, .panel = panel};
            tile_look_ahead(tile, &place, width, i, tiles);
            if (width == 8)
                tile_rows(tile, place, rows, 8, bf16);
            else if (width == 4)
                tile_rows(tile, place, rows, 4, bf16);
            else if (width == 2)
                tile_rows(tile, place, rows, 2, bf16);
            else
                tile_rows(tile, place, rows, 1, bf16);
            row += rows;
        }
        panel += width;
    }
}

#ifndef TILE_F32_ONLY
static void tile_bf16(const struct mr_cpu_tile *tile)
{
    tile_all(tile, true);
}
#endif

static void tile_f32(const struct mr_cpu_tile *tile)
{
    tile_all(tile, false);
}

#endif
