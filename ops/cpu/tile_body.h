/* tile_body - the matrix product of level.h in the 16-lane vectors that the including file defines.
 *
 * A register tile keeps rows x panels accumulators in registers. Tall tiles (many rows, few panels)
 * read little of b; batches and prompts use them. Wide tiles (few rows, many panels) have enough
 * independent accumulators to hide the latency of the multiply when there are few rows.
 *
 * The including file says what fits into its registers. TILE_ROWS is the most rows of a tile that
 * is one panel wide; TILE_ROWS_2, TILE_ROWS_4 and TILE_ROWS_8 are the most rows of tiles that are
 * 2, 4 and 8 panels wide. A file with its own tile_bf16 defines TILE_F32_ONLY. */
#ifndef MR_OPS_CPU_TILE_BODY_H
#define MR_OPS_CPU_TILE_BODY_H

#include "ops/cpu/level.h"

#define TILE_INLINE static inline __attribute__((always_inline))

/* Where a register tile starts, and which cache lines it prefetches, so that memory and multipliers
 * work at the same time. When several tiles use the same panels, each of them prefetches a fraction
 * of the next panels (16 rows: 0.29 instead of 0.36 ms a layer, 32 rows: 0.53 instead of 0.60). A
 * single tile reads the panels at memory speed and prefetches a short distance ahead. Lines are
 * prefetched into the L1 cache: prefetching into L2 was no faster than not prefetching. */
struct tile_place {
    uint32_t row, panel;
    const unsigned char *ahead;
    /* Bytes by which the prefetch address `ahead` advances for each word of depth. */
    size_t ahead_step;
};

/* Computes one register tile. rows, panels and bf16 are constants wherever this function is
 * inlined. */
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

/* One copy of tile_sums for each number of rows, so that every accumulator has a fixed register. */
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
#endif
#if TILE_ROWS > 6
        TILE_CASE(7)
        TILE_CASE(8)
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
#endif
    }
}

#define TILE_PREFETCH_BYTES 1024u /* bytes by which a single tile prefetches ahead of its reads */

/* Sets what a tile prefetches: the i-th of `tiles` tiles that use the same `width` panels gets its
 * fraction of the next panels. When no panels follow, it prefetches lines that are in the cache
 * already. */
TILE_INLINE void tile_set_prefetch(const struct mr_cpu_tile *tile, struct tile_place *place,
                                   uint32_t width, uint32_t i, uint32_t tiles)
{
    place->ahead = tile->b + place->panel * tile->panel_bytes;
    place->ahead_step = MR_PANEL_BYTES;
    if (tiles == 1) {
        place->ahead += TILE_PREFETCH_BYTES;
    } else if (place->panel + 2 * width <= tile->panels_ahead) {
        place->ahead += width * tile->panel_bytes + tile->panel_bytes / tiles * i;
        place->ahead_step = MR_PANEL_BYTES / tiles;
    }
}

/* Cuts the rows into tiles of nearly equal height. All tiles use one to eight panels before the
 * next panels are read, so the panels in use stay in the L1 cache. */
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
            tile_set_prefetch(tile, &place, width, i, tiles);
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
