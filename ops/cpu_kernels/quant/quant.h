/* quant - the product of rows with weights that are small integers: the block formats of GGUF files
 * without conversion, and int8 quantized from floats.
 *
 * Numbers: a weight is scale * (code - offset), or scale * code - minimum; in int8 it is scale *
 *          (code - 128) + middle. Codes are unsigned and have 4, 5, 6 or 8 bits; the codes of IQ4
 *          and MXFP4 choose one of 16 values. A scale belongs to a group of 32 neighbouring inputs
 *          of one output (Q6_K: 16).
 * Rows:    the left matrix is quantized too: 16 neighbouring numbers of a row become 16 signed
 *          bytes and a float scale. So 16 products are added as integers, exactly, and then
 *          multiplied by two scales. llama.cpp does the same with groups of 32, whose rounding
 *          costs twice as much perplexity (tests/bench/README.md).
 * Panels:  16 outputs, as in ops/cpu_kernels/level.h: a line of 64 bytes has 4 neighbouring inputs
 * of each output. 4-bit codes share lines: line i of a group has inputs 4i..4i+3 in the low halves
 *          of its bytes and inputs 16+4i..16+4i+3 in the high halves. The fifth bit, or the fifth
 *          and sixth, of all codes of a group follow in one or two more lines. A panel has the
 *          lines of all groups, then the scales of all groups, then those of blocks of 256.
 * Order:   the groups of an output are added from first to last in one float. A group's integers
 *          are multiplied by the row's scale, then by the weights'; a product and the addition of
 *          its result are rounded once (fused). So all instruction sets give the same bits, and a
 *          row's outputs do not depend on the other rows.
 * Threads: any; all functions are pure. Memory: none allocated. Errors: none. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_QUANT_H
#define MR_OPS_CPU_KERNELS_QUANT_QUANT_H

#include "ops/cpu_kernels/quant/format.h"
#include "ops/numbers/dequant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the format that keeps the numbers of a storage; MR_QUANT_NONE when there is none. */
enum mr_quant_format mr_quant_format_of(enum mr_storage storage);
/* Returns the storage whose numbers a format keeps. Not for MR_QUANT_INT8. */
enum mr_storage mr_quant_storage_of(enum mr_quant_format format);

/* ---- weights ---- */

/* Bytes of a panel of weights [16, in_size]: a multiple of 64. */
size_t mr_quant_panel_bytes(enum mr_quant_format format, uint32_t in_size);
/* Packs 16 rows of floats [16, in_size] as MR_QUANT_INT8: the 256 codes of a group divide the range
 * from its smallest to its largest number evenly. A group with a number that is not finite becomes
 * NaN; one with numbers beyond 65,504 becomes infinite or NaN. */
void mr_quant_pack_int8(uint32_t in_size, const float *rows, unsigned char *panel);
/* Quantizes a row of floats to blocks of Q4_0: in_size / 32, rounded up, of 18 bytes. Several
 * scales are tried for a block, and the one with the least squared error is kept. */
void mr_quant_to_q4_0(uint32_t in_size, const float *row, unsigned char *blocks);
/* Writes the weights of one output of a panel to out[in_size], bit-equal to mr_dequant. */
void mr_quant_unpack(enum mr_quant_format format, uint32_t in_size, const unsigned char *panel,
                     uint32_t column, float *out);

/* ---- the product ---- */

/* The data of a group of 32 numbers of a quantized row. The bytes of the numbers are stored
 * separately. */
struct mr_quant_group {
    /* Of the first and the last 16 numbers: a number is scale * byte. NaN when one of the 16 is not
     * finite. */
    float scale[2];
    float scaled_sum; /* of the numbers of both halves, as quantized */
    int32_t minus[2]; /* minus the sum of the bytes of each half */
};
/* Groups of a row of in_size numbers; the last is filled up with zeros. */
static inline uint32_t mr_quant_group_count(uint32_t in_size)
{
    return (in_size + MR_QUANT_GROUP - 1) / MR_QUANT_GROUP;
}
/* Bytes of a quantized row: the bytes of all groups, then struct mr_quant_group of all groups. */
static inline size_t mr_quant_row_bytes(uint32_t in_size)
{
    return mr_quant_group_count(in_size) * (MR_QUANT_GROUP + sizeof(struct mr_quant_group));
}

/* c = x b: x: quantized rows; b: panels of `format`; c: floats, fully overwritten. */
struct mr_quant_tile {
    enum mr_quant_format format;
    const unsigned char *x;
    size_t x_stride; /* bytes from row to row */
    const unsigned char *b;
    size_t panel_bytes;
    float *c;
    size_t c_stride; /* floats from row to row */
    uint32_t rows, panels, group_count;
    uint32_t panels_ahead; /* panels from b on that may be prefetched for the caller; 0: none */
};

/* The functions of one instruction set. */
struct mr_quant_ops {
    /* Quantizes a row of bf16 or float; out is aligned to 16 bytes. Sixteen numbers whose
     * magnitudes are all below 2^-100 become zeros. */
    void (*row)(const void *x, uint32_t in_size, bool bf16, unsigned char *out);
    void (*tile)(const struct mr_quant_tile *tile);
    /* Packs 16 rows of a storage with this format into a panel; the bytes are the same on all
     * instruction sets. rows[i]: the stored blocks of row i, or NULL for a row of zeros. in_size is
     * a multiple of the storage's block. panel: aligned to 64 bytes. */
    void (*pack)(enum mr_quant_format format, uint32_t in_size,
                 const unsigned char *const rows[MR_QUANT_COLUMNS], unsigned char *panel);
};
/* The functions of `pack`: for any processor, and for AVX-512. */
void mr_quant_pack(enum mr_quant_format format, uint32_t in_size,
                   const unsigned char *const rows[MR_QUANT_COLUMNS], unsigned char *panel);
void mr_quant_pack_avx512f(enum mr_quant_format format, uint32_t in_size,
                           const unsigned char *const rows[MR_QUANT_COLUMNS], unsigned char *panel);
extern const struct mr_quant_ops mr_quant_ops_scalar, mr_quant_ops_avx2, mr_quant_ops_avxvnni,
    mr_quant_ops_avx512f, mr_quant_ops_avx512vnni, mr_quant_ops_amx, mr_quant_ops_neon,
    mr_quant_ops_neon_bf16;

#endif
