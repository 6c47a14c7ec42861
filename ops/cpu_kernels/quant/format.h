/* format - the layout of the codes and scales of each format in a panel (quant.h), as a table of
 * constants. The loops of the product are compiled once for each row of the table. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_FORMAT_H
#define MR_OPS_CPU_KERNELS_QUANT_FORMAT_H

#include "ops/cpu_kernels/quant/band.h"

#include <stddef.h>

#define MR_QUANT_COLUMNS     16u
#define MR_QUANT_LINE        64u
#define MR_QUANT_GROUP       32u
#define MR_QUANT_GROUPS_EACH 8u /* groups of a block of 256 */

/* Scales of one group of 16 columns, and of a block of 256. */
enum mr_quant_scales {
    MR_SCALES_HALF,       /* 16 halves */
    MR_SCALES_BF16,       /* 16 bf16 */
    MR_SCALES_HALF_LOW,   /* 16 halves, and 16 halves that are added */
    MR_SCALES_BLOCK_LOW,  /* 16 bytes and 16 bytes of minimums; block: 16 halves each */
    MR_SCALES_BLOCK_EACH, /* 16 signed bytes; block: 16 halves */
    MR_SCALES_BLOCK_16    /* 16 signed bytes for each 16 inputs; block: 16 halves */
};

struct mr_quant_shape {
    uint32_t bits;  /* of a code */
    uint32_t most;  /* the largest code, or the largest value of a code; above 127, shift is 7 */
    uint32_t shift; /* the offset of the codes is 2^shift; 0: no offset */
    const void *values; /* the value of each 4-bit code plus the offset; NULL: the code itself */
    enum mr_quant_scales scales;
    uint32_t group_bytes, block_bytes; /* of the scales of a group, and of a block */
};

/* IQ4_NL's table plus 128; twice the values of FP4 (e2m1) plus 16. */
static const unsigned char mr_quant_uneven[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                  129, 141, 153, 166, 181, 197, 217, 241};
static const unsigned char mr_quant_fp4[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                               16, 15, 14, 13, 12, 10, 8,  4};

static const struct mr_quant_shape mr_quant_shapes[MR_QUANT_COUNT] = {
    [MR_QUANT_INT8] = {8, 255, 7, NULL, MR_SCALES_HALF_LOW, 64, 0},
    [MR_QUANT_Q8_0] = {8, 255, 7, NULL, MR_SCALES_HALF, 32, 0},
    [MR_QUANT_Q4_0] = {4, 15, 3, NULL, MR_SCALES_HALF, 32, 0},
    [MR_QUANT_Q4_1] = {4, 15, 0, NULL, MR_SCALES_HALF_LOW, 64, 0},
    [MR_QUANT_Q5_0] = {5, 31, 4, NULL, MR_SCALES_HALF, 32, 0},
    [MR_QUANT_Q5_1] = {5, 31, 0, NULL, MR_SCALES_HALF_LOW, 64, 0},
    [MR_QUANT_Q4_K] = {4, 15, 0, NULL, MR_SCALES_BLOCK_LOW, 32, 64},
    [MR_QUANT_Q5_K] = {5, 31, 0, NULL, MR_SCALES_BLOCK_LOW, 32, 64},
    [MR_QUANT_Q6_K] = {6, 63, 5, NULL, MR_SCALES_BLOCK_16, 32, 32},
    [MR_QUANT_IQ4_NL] = {4, 241, 7, mr_quant_uneven, MR_SCALES_HALF, 32, 0},
    [MR_QUANT_IQ4_XS] = {4, 241, 7, mr_quant_uneven, MR_SCALES_BLOCK_EACH, 16, 32},
    [MR_QUANT_MXFP4] = {4, 28, 4, mr_quant_fp4, MR_SCALES_BF16, 32, 0},
};

/* Bytes of the lines of one group. */
static inline uint32_t mr_quant_group_lines(const struct mr_quant_shape *shape)
{
    return shape->bits * (MR_QUANT_GROUP * MR_QUANT_COLUMNS / 8u);
}

/* Offsets of the parts of a panel with group_count groups. */
struct mr_quant_parts {
    size_t scales, blocks, end;
};
static inline struct mr_quant_parts mr_quant_parts_of(const struct mr_quant_shape *shape,
                                                      uint32_t group_count)
{
    struct mr_quant_parts parts;
    parts.scales = (size_t)group_count * mr_quant_group_lines(shape);
    parts.blocks = parts.scales + (size_t)group_count * shape->group_bytes;
    parts.end = parts.blocks + (size_t)(group_count / MR_QUANT_GROUPS_EACH) * shape->block_bytes;
    return parts;
}

#endif
