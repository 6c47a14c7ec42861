/* quantized_kernels - products with weights of 4 or 8 bits on a CUDA device, and their conversion
 * to numbers. Pointers, stream, errors, threads and memory are as in cuda_kernels.h.
 *
 * Weights: number = (code - zero) * scale + low. A scale and a low belong to a group of 16 or 32
 *          neighbouring inputs of one output, and are halves; the scales of MR_CUDA_FP4 are bf16.
 * Tiles:   a tile has the weights of 16 outputs and 64 inputs, and is one run of bytes. The tiles
 *          of the same outputs follow each other by rising input. Codes beyond in_size or out_size
 *          have any value, and their scales and lows are 0.
 * Codes:   come first in a tile, in the order of the fragments of "mma.m16n8k16" (PTX ISA). With
 *          row = lane / 4, lane `lane` of a warp holds, of inputs 16 j to 16 j + 15, four pairs of
 *          neighbouring inputs i = 0..3: of output row + i % 2 * 8, from input
 *          16 j + i / 2 * 8 + lane % 4 * 2 on.
 *          4 bits: [lane][j] words; bits 4 i of a word are the first code of pair i, bits 16 + 4 i
 *          its second code.
 *          8 bits: [j / 2][lane][j % 2][i][2] bytes.
 * Scales:  follow the codes: [group][output % 8][output / 8][scale, low] 16-bit numbers; without
 *          `lows` only the scales.
 * Order:   a result is a sum of runs of inputs, whose number depends on the shape of the layer
 *          only. In a run, the groups are added by rising input in float. So a result depends on
 *          its own row of x and on no other row. */
#ifndef MR_OPS_CUDA_QUANTIZED_KERNELS_H
#define MR_OPS_CUDA_QUANTIZED_KERNELS_H

#include "ops/cuda/cuda_kernels.h"

enum mr_cuda_code {
    MR_CUDA_U4,
    MR_CUDA_FP4, /* twice the value of an FP4 number (e2m1); zero is 0 */
    MR_CUDA_U8,
};

#define MR_TILE_OUTPUTS 16u
#define MR_TILE_INPUTS  64u

/* The tiles of one layer, or of all experts of a layer, which have the same shape. */
struct mr_cuda_tiles {
    /* [experts][outputs / 16, rounded up][inputs / 64, rounded up][bytes of a tile] */
    const void *bytes;
    enum mr_cuda_code code;
    uint32_t out_size, in_size; /* in_size: a multiple of 8 */
    uint32_t zero;              /* at most 128, or 15 with MR_CUDA_U4 */
    uint32_t group;             /* inputs of a group: 32, or 16 with MR_CUDA_U8 without lows */
    bool lows;                  /* not with MR_CUDA_FP4 */
};

static inline uint32_t mr_cuda_tile_code_bytes(const struct mr_cuda_tiles *tiles)
{
    return MR_TILE_OUTPUTS * MR_TILE_INPUTS / (tiles->code == MR_CUDA_U8 ? 1 : 2);
}

static inline uint32_t mr_cuda_tile_bytes(const struct mr_cuda_tiles *tiles)
{
    const uint32_t scales = MR_TILE_OUTPUTS * (MR_TILE_INPUTS / tiles->group);
    return mr_cuda_tile_code_bytes(tiles) + scales * (tiles->lows ? 4 : 2);
}

/* ---- products ---- */

/* More rows are faster with mr_cuda_unpack_weights and LibTorch's product. */
#define MR_CUDA_QUANTIZED_ROWS_MAX 128u

struct mr_cuda_quantized {
    struct mr_cuda_tiles weights;
    enum mr_cuda_type type; /* of x and y: 16 bits */
    uint32_t row_count;
    const void *x;    /* [row_count][in_size], rows x_stride apart */
    int64_t x_stride; /* a multiple of 8 */
    /* Experts: rows [ends[i - 1], ends[i]) of x are those of expert i. NULL: one layer. */
    const int32_t *ends;
    uint32_t expert_count;
    void *y; /* [row_count][out_size], rows y_stride apart */
    int64_t y_stride;
    float *scratch; /* mr_cuda_quantized_scratch_bytes; undefined between calls */
};
size_t mr_cuda_quantized_scratch_bytes(const struct mr_cuda_quantized *product);
/* y = x W^T. The layer's inputs are divided into runs, which thread blocks sum side by side; a
 * second kernel adds the sums of the runs. */
enum mr_status mr_cuda_quantized_product(const struct mr_cuda_quantized *product, void *stream,
                                         struct mr_error *err);

/* ---- numbers ---- */

struct mr_cuda_unpack {
    struct mr_cuda_tiles weights;
    enum mr_cuda_type type; /* of out */
    uint32_t row_count;
    /* [row_count] outputs; output i of expert e is e * out_size + i. NULL: 0 to row_count - 1. */
    const int64_t *ids;
    void *out; /* [row_count][in_size], rows out_stride apart */
    int64_t out_stride;
};
enum mr_status mr_cuda_unpack_weights(const struct mr_cuda_unpack *unpack, void *stream,
                                      struct mr_error *err);

#endif
