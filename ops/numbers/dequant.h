/* dequant - converts the number formats of model files to floats.
 *
 * The quantised forms are GGUF's: blocks of 32 numbers with a half-precision scale d (and, for the
 * forms ending in _1, a minimum m). With q the stored integer, a number is
 *     Q4_0: d (q - 8)    Q4_1: d q + m    Q5_0: d (q - 16)    Q5_1: d q + m    Q8_0: d q (signed)
 * The low four bits of the numbers are stored in 16 bytes: numbers 0..15 in the low halves of the
 * bytes, numbers 16..31 in the high halves. The fifth bits are stored before them in a 32-bit
 * little-endian word, bit i for number i.
 *
 * The forms ending in _K and IQ4_XS have super-blocks of 256 numbers: a half-precision scale d (and
 * dmin), and for each 16 or 32 numbers a small integer s (and m) that multiplies it:
 *     Q2_K, Q4_K, Q5_K: d s q - dmin m    Q3_K: d s (q - 4)    Q6_K: d s (q - 32)
 *     IQ4_XS: d s v[q]    IQ4_NL: d v[q], blocks of 32, v: a fixed table of 16 uneven steps
 *     MXFP4: 2^e f[q], blocks of 32 with one byte for e, f: the 16 values of FP4 (e2m1)
 * F8_E4M3 is a float of 8 bits: sign, exponent of 4 bits with bias 7, fraction of 3 bits; no
 * infinity. The arithmetic follows the reference reader in order and rounding, so the floats are
 * bit-equal.
 *
 * Threads: pure functions. Memory: none. Errors: none; the caller checks sizes. */
#ifndef MR_OPS_NUMBERS_DEQUANT_H
#define MR_OPS_NUMBERS_DEQUANT_H

#include <stddef.h>
#include <stdint.h>

enum mr_storage {
    MR_STORAGE_F32,
    MR_STORAGE_F16,
    MR_STORAGE_BF16,
    MR_STORAGE_Q4_0,
    MR_STORAGE_Q4_1,
    MR_STORAGE_Q5_0,
    MR_STORAGE_Q5_1,
    MR_STORAGE_Q8_0,
    MR_STORAGE_Q2_K,
    MR_STORAGE_Q3_K,
    MR_STORAGE_Q4_K,
    MR_STORAGE_Q5_K,
    MR_STORAGE_Q6_K,
    MR_STORAGE_IQ4_NL,
    MR_STORAGE_IQ4_XS,
    MR_STORAGE_MXFP4,
    MR_STORAGE_F8_E4M3,
    MR_STORAGE_I8,
    MR_STORAGE_U8,
    MR_STORAGE_I32,
    MR_STORAGE_I64,
    MR_STORAGE_OTHER,  /* any other type: cannot be converted to floats */
    MR_STORAGE_PIECES, /* several tensors that are one weight (ops/numbers/quantized.h) */
    MR_STORAGE_COUNT
};

/* Returns the name of the format, such as "F32" or "Q4_1": a static string. */
const char *mr_storage_name(enum mr_storage storage);
/* Returns how many numbers one block has: 1 for floats and integers; 0 for MR_STORAGE_OTHER and
 * MR_STORAGE_PIECES. */
size_t mr_storage_block_numbers(enum mr_storage storage);
/* Returns the size in bytes of one block of numbers. */
size_t mr_storage_block_bytes(enum mr_storage storage);

/* Sets out[0..count) to the numbers stored at bytes, which may be unaligned. count is a multiple of
 * the numbers in a block; storage is below MR_STORAGE_OTHER. */
void mr_dequant(enum mr_storage storage, const void *bytes, size_t count, float *out);
/* Returns the number that a half (IEEE binary16) holds. */
float mr_float_of_half(uint16_t half);
/* Returns the half nearest to x, of two the one with an even fraction; infinity from 65,520 on. */
uint16_t mr_half_of(float x);

#endif
