/* read_body - reading panels of weights of 4 to 8 bits: their codes as bytes and their scales as
 * floats, in the vectors of quant_body.h. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_READ_BODY_H
#define MR_OPS_CPU_KERNELS_QUANT_READ_BODY_H

#include "ops/cpu_kernels/quant/quant.h"

/* With AddressSanitizer, inlining a copy for each size of tile would take GCC minutes. */
#ifdef __SANITIZE_ADDRESS__
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* Prefetches into the L1 cache. bytes_prefetch_far prefetches into L2, where more lines can be in
 * flight at once. Both use __builtin_prefetch instead of _mm_prefetch: see
 * tests/tidy/prefetch.sh. */
INLINE void bytes_prefetch(const void *p)
{
    __builtin_prefetch(p);
}
INLINE void bytes_prefetch_far(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

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

/* The scales of a group of a panel, and the number that is added or subtracted. */
struct quant_factors {
    floats scale, other; /* other: second scale of Q6_K, or the minimum */
};

INLINE struct quant_factors quant_factors(const struct mr_quant_shape shape,
                                          const unsigned char *scales, const unsigned char *blocks)
{
    struct quant_factors f;
    f.scale = f.other = floats_set(0.0f);
    switch (shape.scales) {
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
        f.other = floats_sub(f.other,
                             floats_mul(floats_halves(blocks + 32), floats_unsigned(scales + 16)));
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

/* The place of a register tile within one group. */
struct quant_place {
    const unsigned char *x, *groups; /* of the first row */
    size_t x_stride;
    const unsigned char *lines; /* of the first panel, and from there to the next panel */
    size_t lines_stride;
    const unsigned char *scales, *blocks; /* of the group in the first panel */
    size_t panel_bytes;
    const float *factors; /* instead, with unpacked panels: [panel][READY_GROUPS][2][16] */
    float *c;
    const unsigned char *ahead; /* the next address to prefetch, and the bytes to prefetch in each
                                 * group */
    size_t ahead_step;
    bool ahead_far;      /* into L2 only */
    uint32_t first, end; /* groups to multiply; c has the sums of those before `first` */
};

INLINE const struct mr_quant_group *quant_group(const struct quant_place *at, uint32_t row)
{
    return (const struct mr_quant_group *)(const void *)(at->groups + row * at->x_stride);
}

/* Minus the sum of the bytes of half a group, for formats whose codes have an offset. */
INLINE int32_t quant_minus(const struct mr_quant_shape shape, const struct quant_place *at,
                           uint32_t row, const uint32_t half)
{
    return shape.shift > 0 ? quant_group(at, row)->minus[half] : 0;
}

/* Groups of two panels that are unpacked at a time for many rows: 10 KB, in the L1 cache. */
#define READY_GROUPS MR_QUANT_GROUPS_EACH

/* Codes as bytes and scales as floats of some groups of two panels. */
struct quant_ready {
    _Alignas(64) unsigned char lines[2][READY_GROUPS][8 * MR_QUANT_LINE];
    float factors[2][READY_GROUPS][2][MR_QUANT_COLUMNS];
};

/* The factors of the current group of a tile. */
INLINE struct quant_factors quant_factors_at(const struct mr_quant_shape shape,
                                             const struct quant_place *at, uint32_t p,
                                             const bool ready)
{
    if (!ready)
        return quant_factors(shape, at->scales + p * at->panel_bytes,
                             at->blocks + p * at->panel_bytes);
    const float *from = at->factors + (size_t)p * READY_GROUPS * 2 * MR_QUANT_COLUMNS;
    return (struct quant_factors){floats_load(from), floats_load(from + MR_QUANT_COLUMNS)};
}

/* Moves a tile from group g to the next one. */
INLINE void quant_next(const struct mr_quant_shape shape, struct quant_place *at, uint32_t g)
{
    at->x += MR_QUANT_GROUP;
    at->groups += sizeof(struct mr_quant_group);
    at->lines += mr_quant_group_lines(&shape);
    at->scales += shape.group_bytes;
    if (g % MR_QUANT_GROUPS_EACH == MR_QUANT_GROUPS_EACH - 1) at->blocks += shape.block_bytes;
    at->factors += 2 * MR_QUANT_COLUMNS;
    at->ahead += at->ahead_step;
}

/* The place of a tile at its first group. */
INLINE struct quant_place quant_start(const struct mr_quant_tile *tile,
                                      const struct mr_quant_shape shape, uint32_t row,
                                      uint32_t panel)
{
    const struct mr_quant_parts parts = mr_quant_parts_of(&shape, tile->group_count);
    const unsigned char *b = tile->b + panel * tile->panel_bytes;
    const unsigned char *x = tile->x + row * tile->x_stride;
    return (struct quant_place){.x = x,
                                .groups = x + (size_t)tile->group_count * MR_QUANT_GROUP,
                                .x_stride = tile->x_stride,
                                .lines = b,
                                .lines_stride = tile->panel_bytes,
                                .scales = b + parts.scales,
                                .blocks = b + parts.blocks,
                                .panel_bytes = tile->panel_bytes,
                                .c = tile->c + row * tile->c_stride +
                                     (size_t)panel * MR_QUANT_COLUMNS,
                                .ahead = b,
                                .end = tile->group_count};
}

/* The place of a tile at the groups [first, end). first: a multiple of READY_GROUPS. */
INLINE struct quant_place quant_start_at(const struct mr_quant_tile *tile,
                                         const struct mr_quant_shape shape, uint32_t panel,
                                         uint32_t first, uint32_t end)
{
    struct quant_place at = quant_start(tile, shape, 0, panel);
    at.first = first;
    at.end = end;
    at.lines += (size_t)first * mr_quant_group_lines(&shape);
    at.scales += (size_t)first * shape.group_bytes;
    at.blocks += (size_t)(first / MR_QUANT_GROUPS_EACH) * shape.block_bytes;
    return at;
}

/* Unpacks the groups of a place, at most READY_GROUPS, of one or two panels. */
INLINE void quant_unpack(const struct mr_quant_shape shape, struct quant_place at,
                         const uint32_t panels, struct quant_ready *ready)
{
    for (uint32_t g = at.first; g < at.end; g++) {
        const uint32_t i = g - at.first;
#pragma GCC unroll 16
        for (uint32_t p = 0; p < panels; p++) {
            const struct quant_factors f = quant_factors_at(shape, &at, p, false);
            floats_store(ready->factors[p][i][0], f.scale);
            floats_store(ready->factors[p][i][1], f.other);
#pragma GCC unroll 16
            for (uint32_t j = 0; j < 8; j++)
                bytes_store(ready->lines[p][i] + j * MR_QUANT_LINE,
                            quant_codes(shape, at.lines + p * at.panel_bytes, j));
        }
        quant_next(shape, &at, g);
    }
}

#endif
