/* quantized - a weight that a Hugging Face folder stores in several tensors, its pieces: small
 * integers or 8-bit floats, scales, and for some formats zero points and the groups of the columns.
 *     number = (stored - zero) * scale
 * A scale and a zero point belong to a group of neighbouring columns of one row or of a block of
 * rows. Formats, with the shapes of their pieces for a weight [out, in]:
 *     SCALED   weight [out, in] of F8_E4M3 or I8; scale [1], [out], [out, groups] or
 *              [row blocks, column blocks]; zero as scale, or none
 *              (compressed-tensors float-, int- and naive-quantized; fp8 as DeepSeek and Qwen)
 *     PACKED   weight I32 [out, in / per], per = 32 / bits, the first number in the low bits,
 *              2^(bits-1) added; scale [out, groups]; zero I32 [out / per, groups], packed along
 *              the rows in the same way, or none (compressed-tensors pack-quantized)
 *     AWQ      weight I32 [in, out / 8], 4 bits, columns in the order 0 2 4 6 1 3 5 7;
 *              scale [groups, out]; zero I32 [groups, out / 8] in the same order (AutoAWQ, gemm)
 *     GPTQ     weight I32 [in / per, out]; scale [groups, out]; zero I32 [groups, out / per],
 *              minus 1 in the first version of the format; order I32 [in]: the group of each
 *              column (AutoGPTQ, GPTQModel)
 *     MXFP4    weight U8 [experts, out, in / 32, 16], two FP4 numbers (e2m1) in a byte, the first
 *              in the low bits; scale U8 [experts, out, in / 32], a power of two with bias 127
 *              (gpt-oss). The tensor has experts * out rows.
 *
 * Threads: pure functions. Memory: borrows the pieces. Errors: none; quantized_folder checks the
 * shapes. */
#ifndef MR_OPS_NUMBERS_QUANTIZED_H
#define MR_OPS_NUMBERS_QUANTIZED_H

#include "ops/numbers/dequant.h"

#include <stdbool.h>

#define MR_QUANTIZED_GROUPS_MAX 4096u /* groups of a row */

enum mr_quantized_format {
    MR_QUANTIZED_SCALED,
    MR_QUANTIZED_PACKED,
    MR_QUANTIZED_AWQ,
    MR_QUANTIZED_GPTQ,
    MR_QUANTIZED_MXFP4
};

enum mr_quantized_place {
    MR_QUANTIZED_WEIGHT,
    MR_QUANTIZED_SCALE,
    MR_QUANTIZED_ZERO,   /* optional for SCALED and PACKED */
    MR_QUANTIZED_ORDER,  /* optional: without it groups are neighbouring columns */
    MR_QUANTIZED_REPEAT, /* optional: pieces that repeat information of the others */
    MR_QUANTIZED_REPEAT_TOO,
    MR_QUANTIZED_PIECES
};

struct mr_mapped_file;

struct mr_quantized_piece {
    enum mr_storage storage;
    const unsigned char *bytes; /* NULL: the weight has no such piece */
    uint64_t size_bytes;
    const struct mr_mapped_file
        *file; /* file that has the bytes (ops/files/mapped_file.h), or NULL */
};

struct mr_quantized {
    enum mr_quantized_format format;
    uint32_t bits; /* bits of a packed number: 4 or 8; 0 for SCALED and MXFP4 */
    uint32_t rows, width;
    uint32_t row_block;   /* rows that share a scale; only SCALED has more than 1 */
    uint32_t group_width; /* columns of a group; the last group may have fewer */
    uint32_t group_count; /* at most MR_QUANTIZED_GROUPS_MAX */
    bool zero_less_one;   /* the zero points are stored minus 1 */
    struct mr_quantized_piece pieces[MR_QUANTIZED_PIECES];
};

/* Converts row `row` to floats: out[width]. Asserts that the groups of `order` exist. */
void mr_quantized_row(const struct mr_quantized *quantized, uint64_t row, float *out);

/* Returns whether the rows can be written as blocks of Q4_1 (dequant.h): numbers of 4 bits, in
 * groups of neighbouring columns whose width is a multiple of 32. */
bool mr_quantized_fits_q4_1(const struct mr_quantized *quantized);
/* Writes row `row` of such a weight as blocks of Q4_1, width / 32 * 20 bytes. Stored numbers and
 * scales are unchanged; the minimum is minus the scale times the zero point, as a half. numbers:
 * scratch for a row. False if a scale is not a half; the blocks are then undefined. */
bool mr_quantized_row_q4_1(const struct mr_quantized *quantized, uint64_t row, float *numbers,
                           unsigned char *blocks);

/* Returns the name of the format, such as "AWQ": a static string. */
const char *mr_quantized_name(const struct mr_quantized *quantized);

#endif
