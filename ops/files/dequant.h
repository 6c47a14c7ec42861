/* dequant - numbers as model files store them, turned into floats.
 *
 * The quantised forms are GGUF's: blocks of 32 numbers with a half-precision scale d (and, for the
 * forms ending in _1, a minimum m). With q the stored integer, a number is
 *     Q4_0: d (q - 8)    Q4_1: d q + m    Q5_0: d (q - 16)    Q5_1: d q + m    Q8_0: d q (signed)
 * Four-bit fields lie as 16 bytes, numbers 0..15 in the low halves and 16..31 in the high ones; the
 * fifth bits lie in a 32-bit little-endian word before them, bit i for number i.
 *
 * Threads: pure functions. Memory: none. Errors: none; sizes are the caller's to check. */
#ifndef MR_OPS_FILES_DEQUANT_H
#define MR_OPS_FILES_DEQUANT_H

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
    MR_STORAGE_OTHER, /* stored in the file, of no use to a model here */
    MR_STORAGE_COUNT
};

/* "F32", "Q4_1" ... Static string. */
const char *mr_storage_name(enum mr_storage storage);
/* Numbers of one block, 1 for plain types; 0 for MR_STORAGE_OTHER. */
size_t mr_storage_block_numbers(enum mr_storage storage);
/* Bytes of one block. */
size_t mr_storage_block_bytes(enum mr_storage storage);

/* out[0..count) = the numbers at bytes. count is a multiple of the block; bytes may be unaligned.
 * storage is not MR_STORAGE_OTHER. */
void mr_dequant(enum mr_storage storage, const void *bytes, size_t count, float *out);

#endif
