/* tile_body - the matrix products of level.h. Defines tile_f32, and tile_bf16 unless TILE_F32_ONLY
 * is defined.
 *
 * A register tile keeps rows x panels accumulators in registers. Tall tiles (many rows, few panels)
 * read little of b; batches and prompts use them. Wide tiles (few rows, many panels) have enough
 * independent accumulators to hide the latency of the multiply when there are few rows.
 *
 * Needs, defined before it is included: the 16-lane vectors of one instruction set, and the sizes
 * of register tiles. TILE_ROWS is the most rows of a tile that is one panel wide; TILE_ROWS_2,
 * TILE_ROWS_4 and TILE_ROWS_8 are the most rows of tiles that are 2, 4 and 8 panels wide. Optional,
 * for instruction sets that do not multiply bf16: with TILE_FLOATS a tile converts its rows to
 * floats first and multiplies them with each half of the words of b, unless there are
 * TILE_BF16_ROWS rows or more. */
#ifndef MR_OPS_CPU_KERNELS_TILE_BODY_H
#define MR_OPS_CPU_KERNELS_TILE_BODY_H

#include "ops/cpu_kernels/level.h"

#define TILE_INLINE static inline __attribute__((always_inline))

/* Where a register tile starts, and which cache lines it prefetches, so that memory and multipliers
 * work at the same time. When several tiles use the same panels, each of them prefetches a fraction
 * of the next panels (16 rows: 0.29 instead of 0.36 ms a layer, 32 rows: 0.53 instead of 0.60). A
 * single tile reads the panels at memory speed and prefetches a short distance ahead, or the bytes
 * that the caller reads next: a panel of 16 keys is too short to prefetch within, and attention of
 * 8 answers at 4,000 tokens takes 43 ms this way instead of 57 to 101 ms. Lines are prefetched into
 * L2, where more of them can be in flight at once than in L1: one row of bf16 on one core of a Zen
 * 4 reads 28 GB/s, and read 20 GB/s with lines prefetched into L1. */
struct tile_place {
    uint32_t row, panel;
    const unsigned char *ahead;
    /* Bytes by which the prefetch address `ahead` advances for each word of depth. */
    size_t ahead_step;
};

/* The content of a word of depth. */
enum tile_kind {
    TILE_KIND_BF16,  /* two bf16 in a and b */
    TILE_KIND_F32,   /* a float in a and b */
    TILE_KIND_FLOATS /* two bf16 in b, two floats of struct tile_left in a */
};

/* Some words of depth of the rows of a register tile. The first floats of all words of a row come
 * before the second ones; this order takes the fewest instructions to convert. */
struct tile_left {
    const unsigned char *words; /* as in a */
    size_t stride_bytes;
    const float *numbers; /* converted */
    uint32_t begin, end;  /* words; the sums of the words before `begin` are in c */
};

#ifdef TILE_FLOATS
/* Words of depth that a tile of `rows` rows multiplies at a time, and floats from one part of its
 * converted rows to the next. */
#define TILE_FLOATS_DEEP(rows)   ((rows) == 1 ? 2048u : 128u)
#define TILE_FLOATS_STRIDE(rows) (TILE_FLOATS_DEEP(rows) + 16u)
#define TILE_FLOATS_MAX          (2u * TILE_FLOATS_STRIDE(1)) /* more than for TILE_ROWS */
#define TILE_FLOATS_WIDE         2u /* panels that many tiles multiply in turn */
_Static_assert(2 * TILE_ROWS * TILE_FLOATS_STRIDE(2) <= TILE_FLOATS_MAX, "rows fit");
#endif

typedef lanes tile_sum[8]; /* sums of one row, in several panels */

/* Of a register tile: constants wherever a function with one is inlined. */
struct tile_size {
    uint32_t rows, panels;
};

#ifdef TILE_FLOATS
/* Adds the products of word k of depth. A number of a is used for all panels before the next
 * number, so that it occupies a register only briefly. */
TILE_INLINE void tile_add_floats(const struct tile_left *left, const uint32_t k,
                                 const lanes_raw *right, const struct tile_size size, tile_sum *sum)
{
    const uint32_t rows = size.rows, panels = size.panels;
    const uint32_t stride = TILE_FLOATS_STRIDE(rows); /* a constant: addresses need no register */
    const float *numbers = left->numbers + k - left->begin;
#pragma GCC unroll 2
    for (uint32_t half = 0; half < 2; half++) {
        lanes part[8];
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++)
            part[p] = half == 0 ? lanes_first(right[p]) : lanes_second(right[p]);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < rows; r++) {
            const lanes number = lanes_set(numbers[(2 * r + half) * stride]);
#pragma GCC unroll 16
            for (uint32_t p = 0; p < panels; p++)
                sum[r][p] = lanes_fma(number, part[p], sum[r][p]);
        }
    }
}
#endif

/* Adds the products of word k of depth to the sums of one panel, sum[8 * row]. */
TILE_INLINE void tile_add(const struct tile_left *left, const uint32_t k, const lanes_raw right,
                          const uint32_t rows, const bool bf16, lanes *sum)
{
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++) {
        const lanes_raw word =
            lanes_raw_word(left->words + r * left->stride_bytes + (size_t)k * 4u);
        sum[8 * r] = lanes_dot(sum[8 * r], word, right, bf16);
    }
}

/* Computes one register tile. rows, panels and kind are constants wherever this function is
 * inlined. */
TILE_INLINE void tile_sums(const struct mr_cpu_tile *tile, const struct tile_place place,
                           const struct tile_left left, const uint32_t rows, const uint32_t panels,
                           const enum tile_kind kind)
{
    const unsigned char *b = tile->b + place.panel * tile->panel_bytes;
    float *c = tile->c + place.row * tile->c_stride + place.panel * MR_PANEL_COLUMNS;
    const size_t b_stride = tile->panel_bytes;
    tile_sum sum[TILE_ROWS];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++)
            sum[r][p] = kind == TILE_KIND_FLOATS && left.begin > 0
                            ? lanes_load(c + r * tile->c_stride + p * MR_PANEL_COLUMNS)
                            : lanes_set(0.0f);
    for (uint32_t k = left.begin; k < left.end; k++) {
        lanes_raw right[8];
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++) {
            lanes_prefetch(place.ahead + p * b_stride + k * place.ahead_step);
            right[p] = lanes_raw_load(b + p * b_stride + (size_t)k * MR_PANEL_BYTES);
            if (kind != TILE_KIND_FLOATS)
                tile_add(&left, k, right[p], rows, kind == TILE_KIND_BF16, &sum[0][p]);
        }
#ifdef TILE_FLOATS
        if (kind == TILE_KIND_FLOATS)
            tile_add_floats(&left, k, right, (struct tile_size){rows, panels}, sum);
#endif
    }
#pragma GCC unroll 16
    for (uint32_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++)
            lanes_store(c + r * tile->c_stride + p * MR_PANEL_COLUMNS, sum[r][p]);
}

/* One copy of tile_sums for each number of rows, so that every accumulator has a fixed register. */
#define TILE_CASE(n)                                                                               \
    case n:                                                                                        \
        if ((n) <= most) tile_sums(tile, place, left, (n), panels, kind);                          \
        break;

TILE_INLINE void tile_rows(const struct mr_cpu_tile *tile, const struct tile_place place,
                           const struct tile_left left, uint32_t rows, const uint32_t panels,
                           const enum tile_kind kind)
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

/* Bytes by which a single tile prefetches each of its panels ahead of its reads. With 4,096 instead
 * of 1,024, measured on Zen 4, 8 rows (two panels wide) are 1.6 times as fast and 4 rows (four
 * panels wide) 0.85 times. */
#define TILE_PREFETCH_BYTES(width) ((width) >= 4 ? 1024u : 4096u)

/* Sets the addresses that a tile prefetches: the i-th of `tiles` tiles that use the same `width`
 * panels gets its fraction of the next panels. When no panels follow, it prefetches lines that are
 * already in the cache. */
TILE_INLINE void tile_set_prefetch(const struct mr_cpu_tile *tile, struct tile_place *place,
                                   uint32_t width, uint32_t i, uint32_t tiles)
{
    place->ahead = tile->b + place->panel * tile->panel_bytes;
    place->ahead_step = MR_PANEL_BYTES;
    if (tiles == 1 && tile->next) {
        place->ahead = tile->next + place->panel * tile->panel_bytes;
    } else if (tiles == 1) {
        place->ahead += TILE_PREFETCH_BYTES(width);
    } else if (place->panel + 2 * width <= tile->panels_ahead) {
        place->ahead += width * tile->panel_bytes + tile->panel_bytes / tiles * i;
        place->ahead_step = MR_PANEL_BYTES / tiles;
    }
}

/* The rows, cut into register tiles of nearly equal height. */
struct tile_cut {
    uint32_t tiles, height, taller; /* the first `taller` tiles have one row more */
    uint32_t most;                  /* rows of the tallest */
};

TILE_INLINE struct tile_cut tile_cut_rows(uint32_t rows)
{
    const uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    if (tiles == 0) return (struct tile_cut){0, 0, 0, 0};
    const uint32_t height = rows / tiles, taller = rows % tiles;
    return (struct tile_cut){tiles, height, taller, height + (taller > 0)};
}

/* Returns the number of the `left` panels that tiles of this height take at once. */
TILE_INLINE uint32_t tile_width(uint32_t height, uint32_t left)
{
    return height <= TILE_ROWS_8 && left >= 8   ? 8
           : height <= TILE_ROWS_4 && left >= 4 ? 4
           : height <= TILE_ROWS_2 && left >= 2 ? 2
                                                : 1;
}

TILE_INLINE void tile_one(const struct mr_cpu_tile *tile, const struct tile_place place,
                          const struct tile_left left, uint32_t rows, uint32_t width,
                          const enum tile_kind kind)
{
    if (width == 8)
        tile_rows(tile, place, left, rows, 8, kind);
    else if (width == 4)
        tile_rows(tile, place, left, rows, 4, kind);
    else if (width == 2)
        tile_rows(tile, place, left, rows, 2, kind);
    else
        tile_rows(tile, place, left, rows, 1, kind);
}

/* Every tile uses the same one to eight panels before the next panels are read, so the panels in
 * use stay in the L1 cache. */
TILE_INLINE void tile_all(const struct mr_cpu_tile *tile, const enum tile_kind kind)
{
    const struct tile_cut cut = tile_cut_rows(tile->rows);
    struct tile_left left = {.stride_bytes = tile->a_stride_bytes, .end = tile->word_count};
    if (cut.tiles == 0) return;
    for (uint32_t panel = 0, width; panel < tile->panels; panel += width) {
        width = tile_width(cut.most, tile->panels - panel);
        for (uint32_t i = 0, row = 0; i < cut.tiles; i++) {
            const uint32_t rows = cut.height + (i < cut.taller);
            struct tile_place place = {.row = row, .panel = panel};
            left.words = tile->a + row * left.stride_bytes;
            tile_set_prefetch(tile, &place, width, i, cut.tiles);
            tile_one(tile, place, left, rows, width, kind);
            row += rows;
        }
    }
}

#ifdef TILE_FLOATS
/* Converts words [begin, end) of rows of a. */
static void tile_convert(const struct mr_cpu_tile *tile, uint32_t row, uint32_t rows,
                         const struct tile_left *left, float *numbers)
{
    const uint32_t words = left->end - left->begin, stride = TILE_FLOATS_STRIDE(rows);
    for (uint32_t r = 0; r < rows; r++, numbers += 2 * stride) {
        const unsigned char *a =
            tile->a + (row + r) * tile->a_stride_bytes + (size_t)left->begin * 4u;
        uint32_t k = 0;
        for (; k + 16 <= words; k += 16) {
            const lanes_raw pairs = lanes_raw_load(a + (size_t)k * 4u);
            lanes_store(numbers + k, lanes_first(pairs));
            lanes_store(numbers + stride + k, lanes_second(pairs));
        }
        for (; k < words; k++) {
            uint32_t pair;
            memcpy(&pair, a + (size_t)k * 4u, sizeof pair);
            const uint32_t first = pair << 16, second = pair & 0xffff0000u;
            memcpy(numbers + k, &first, sizeof first);
            memcpy(numbers + stride + k, &second, sizeof second);
        }
    }
}

/* Few rows: one register tile, whose rows are converted once for all panels. */
static void tile_floats_few(const struct mr_cpu_tile *tile, struct tile_left left)
{
    _Alignas(64) float numbers[TILE_FLOATS_MAX];
    const uint32_t deep = TILE_FLOATS_DEEP(tile->rows);
    left.numbers = numbers;
    do {
        left.end = tile->word_count - left.begin < deep ? tile->word_count : left.begin + deep;
        tile_convert(tile, 0, tile->rows, &left, numbers);
        struct tile_place place = {0};
        for (uint32_t width; place.panel < tile->panels; place.panel += width) {
            width = tile_width(tile->rows, tile->panels - place.panel);
            tile_set_prefetch(tile, &place, width, 0, 1);
            tile_one(tile, place, left, tile->rows, width, TILE_KIND_FLOATS);
        }
        left.begin = left.end;
    } while (left.begin < tile->word_count);
}

/* Many rows: a part of two panels stays in the L1 cache for all register tiles. Each tile converts
 * its rows, which takes a twentieth of the instructions. */
static void tile_floats_many(const struct mr_cpu_tile *tile, const struct tile_cut *cut,
                             struct tile_left left, uint32_t panel, uint32_t end)
{
    _Alignas(64) float numbers[TILE_FLOATS_MAX];
    const uint32_t deep = TILE_FLOATS_DEEP(cut->most);
    left.numbers = numbers;
    do {
        left.end = tile->word_count - left.begin < deep ? tile->word_count : left.begin + deep;
        for (uint32_t i = 0, row = 0, rows; i < cut->tiles; i++, row += rows) {
            rows = cut->height + (i < cut->taller);
            tile_convert(tile, row, rows, &left, numbers);
            struct tile_place place = {.row = row, .panel = panel};
            for (uint32_t width; place.panel < end; place.panel += width) {
                width = tile_width(cut->most, end - place.panel);
                tile_set_prefetch(tile, &place, TILE_FLOATS_WIDE, i, cut->tiles);
                tile_one(tile, place, left, rows, width, TILE_KIND_FLOATS);
            }
        }
        left.begin = left.end;
    } while (left.begin < tile->word_count);
}

static void tile_bf16(const struct mr_cpu_tile *tile)
{
    const struct tile_cut cut = tile_cut_rows(tile->rows);
    const struct tile_left left = {.begin = 0};
#ifdef TILE_BF16_ROWS
    if (tile->rows >= TILE_BF16_ROWS) {
        tile_all(tile, TILE_KIND_BF16);
        return;
    }
#endif
    if (cut.tiles == 1) {
        tile_floats_few(tile, left);
        return;
    }
    for (uint32_t panel = 0, end; cut.tiles > 1 && panel < tile->panels; panel = end) {
        const uint32_t rest = tile->panels - panel;
        end = panel + (rest < TILE_FLOATS_WIDE ? rest : TILE_FLOATS_WIDE);
        tile_floats_many(tile, &cut, left, panel, end);
    }
}
#elif !defined TILE_F32_ONLY
static void tile_bf16(const struct mr_cpu_tile *tile)
{
    tile_all(tile, TILE_KIND_BF16);
}
#endif

static void tile_f32(const struct mr_cpu_tile *tile)
{
    tile_all(tile, TILE_KIND_F32);
}

#endif
