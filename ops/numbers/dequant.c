#include "ops/numbers/dequant.h"

#include "codec/check.h"

#include <math.h>
#include <string.h>

#define BLOCK       32u
#define SUPER_BLOCK 256u

/* Inlined into a copy of `convert` for each instruction set. */
#define INLINE static inline __attribute__((always_inline))

INLINE float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

INLINE uint16_t load_u16(const unsigned char *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

INLINE uint32_t load_u32(const unsigned char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* Every finite number is its exponent and fraction, read as those of a float, times 2^112: the
 * difference of the exponent biases of float and half. Infinity and NaN get the largest exponent.
 * No branch, so that loops over numbers are vectorized. */
INLINE float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13;
    float finite = from_bits(magnitude) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &finite, sizeof(bits));
    bits = magnitude >= 31u << 23 ? magnitude | 0x7f800000u : bits;
    return from_bits(sign | bits);
}

INLINE float load_half(const unsigned char *bytes)
{
    return half_to_float(load_u16(bytes));
}

INLINE void dequant_f32(const unsigned char *bytes, size_t count, float *out)
{
    memcpy(out, bytes, count * sizeof(float));
}

INLINE void dequant_f16(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = load_half(bytes + 2 * i);
}

INLINE void dequant_bf16(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = from_bits((uint32_t)load_u16(bytes + 2 * i) << 16);
}

INLINE void dequant_f8_e4m3(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = bytes[i] & 127u, sign = (bytes[i] & 128u) << 24;
        float finite = from_bits(magnitude << 20) * 0x1p120f;
        uint32_t bits;
        memcpy(&bits, &finite, sizeof(bits));
        bits = magnitude == 127u ? 0x7fc00000u : bits;
        out[i] = from_bits(sign | bits);
    }
}

/* ---- integers ---- */

INLINE void dequant_i8(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(signed char)bytes[i];
}

INLINE void dequant_u8(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)bytes[i];
}

INLINE void dequant_i32(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(int32_t)load_u32(bytes + 4 * i);
}

INLINE void dequant_i64(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        memcpy(&value, bytes + 8 * i, sizeof(value));
        out[i] = (float)value;
    }
}

/* ---- sixteen numbers at once ----
 * Each format unpacks 16 stored integers, which fit into signed bytes, and converts them to floats.
 * The vectors are GCC's: a compiler maps them to the registers of the instruction set. */

typedef unsigned char bytes16 __attribute__((vector_size(16)));
typedef signed char numbers16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));
typedef int16_t halves16 __attribute__((vector_size(32)));
typedef int32_t words16 __attribute__((vector_size(64)));
typedef float floats16 __attribute__((vector_size(64)));

INLINE bytes16 load16(const unsigned char *bytes)
{
    bytes16 value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* Each byte shifted down by `count` bits, above which bits of the next byte appear. Instruction
 * sets shift words, not bytes. */
INLINE bytes16 down(bytes16 bytes, unsigned count)
{
    return (bytes16)((halves8)bytes >> (uint16_t)count);
}

/* Each byte shifted up; the caller has cleared the bits that would leave it. */
INLINE bytes16 up(bytes16 bytes, unsigned count)
{
    return (bytes16)((halves8)bytes << (uint16_t)count);
}

/* out[0..16) = scale * numbers */
INLINE void put_scaled(numbers16 numbers, float scale, float *out)
{
    halves16 halves = __builtin_convertvector(numbers, halves16);
    words16 words = __builtin_convertvector(halves, words16);
    floats16 floats = scale * __builtin_convertvector(words, floats16);
    memcpy(out, &floats, sizeof(floats));
}

/* out[0..16) = scale * numbers - low, the product rounded first */
INLINE void put_lowered(numbers16 numbers, float scale, float low, float *out)
{
    halves16 halves = __builtin_convertvector(numbers, halves16);
    words16 words = __builtin_convertvector(halves, words16);
    floats16 floats = scale * __builtin_convertvector(words, floats16) - low;
    memcpy(out, &floats, sizeof(floats));
}

/* ---- blocks of 32 numbers ---- */

INLINE void dequant_q4_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 18) {
        bytes16 packed = load16(bytes + 2);
        put_scaled((numbers16)(packed & 15) - 8, load_half(bytes), out + i);
        put_scaled((numbers16)(down(packed, 4) & 15) - 8, load_half(bytes), out + i + 16);
    }
}

INLINE void dequant_q4_1(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 20) {
        bytes16 packed = load16(bytes + 4);
        float scale = load_half(bytes), low = -load_half(bytes + 2);
        put_lowered((numbers16)(packed & 15), scale, low, out + i);
        put_lowered((numbers16)(down(packed, 4) & 15), scale, low, out + i + 16);
    }
}

/* Sixteen fifth bits, from bit 0 of the two bytes on, as numbers 0 or 16. */
INLINE bytes16 fifth_bits(const unsigned char *bytes)
{
    const bytes16 bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    bytes16 both = {bytes[0], bytes[1]};
    both = __builtin_shufflevector(both, both, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    return (bytes16)((both & bit) != 0) & 16;
}

INLINE void dequant_q5_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 22) {
        bytes16 packed = load16(bytes + 6);
        bytes16 low = (packed & 15) | fifth_bits(bytes + 2);
        bytes16 high = (down(packed, 4) & 15) | fifth_bits(bytes + 4);
        put_scaled((numbers16)low - 16, load_half(bytes), out + i);
        put_scaled((numbers16)high - 16, load_half(bytes), out + i + 16);
    }
}

INLINE void dequant_q5_1(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 24) {
        bytes16 packed = load16(bytes + 8);
        float scale = load_half(bytes), low = -load_half(bytes + 2);
        put_lowered((numbers16)((packed & 15) | fifth_bits(bytes + 4)), scale, low, out + i);
        put_lowered((numbers16)((down(packed, 4) & 15) | fifth_bits(bytes + 6)), scale, low,
                    out + i + 16);
    }
}

INLINE void dequant_q8_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 34) {
        put_scaled((numbers16)load16(bytes + 2), load_half(bytes), out + i);
        put_scaled((numbers16)load16(bytes + 18), load_half(bytes), out + i + 16);
    }
}

/* ---- super-blocks of 256 numbers ---- */

/* Scales and minimums of 6 bits of the 8 blocks of a super-block, 12 bytes. Those of blocks 0 to 3
 * are in the low six bits of bytes 0..3 and 4..7; those of blocks 4 to 7 have their low four bits
 * in the halves of bytes 8..11, and their high two bits above the ones of blocks 0 to 3. */
INLINE void six_bit_scales(const unsigned char *packed, unsigned block, uint32_t *scale,
                           uint32_t *minimum)
{
    if (block < 4) {
        *scale = packed[block] & 63u;
        *minimum = packed[block + 4] & 63u;
    } else {
        *scale = (packed[block + 4] & 15u) | (uint32_t)(packed[block - 4] >> 6) << 4;
        *minimum = (uint32_t)(packed[block + 4] >> 4) | (uint32_t)(packed[block] >> 6) << 4;
    }
}

/* Layout: 16 bytes of scales (low half) and minimums (high half) of 16 numbers each, 64 bytes of
 * numbers, d, dmin. Each 32 bytes hold 128 numbers: bits 0 and 1 the first 32, and so on. */
INLINE void dequant_q2_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 84) {
        float d = load_half(bytes + 80), d_min = load_half(bytes + 82);
        for (size_t part = 0; part < 16; part++) {
            const unsigned char *packed = bytes + 16 + part / 8 * 32 + part % 2 * 16;
            unsigned shift = (unsigned)(part % 8 / 2 * 2);
            float scale = d * (float)(bytes[part] & 15), low = d_min * (float)(bytes[part] >> 4);
            put_lowered((numbers16)(down(load16(packed), shift) & 3), scale, low,
                        out + i + part * 16);
        }
    }
}

/* The 16 signed scales of 6 bits of a Q3_K super-block, 12 bytes: the low four bits are in the
 * halves of bytes 0..7, the high two bits in bytes 8..11. */
INLINE int q3_scale(const unsigned char *packed, size_t part)
{
    unsigned low = part < 8 ? packed[part] & 15u : packed[part - 8] >> 4;
    unsigned high = (unsigned)packed[8 + part % 4] >> (part / 4 * 2) & 3u;
    return (int)(low | high << 4) - 32;
}

/* Layout: 32 bytes of third bits, 64 bytes of low bits as in Q2_K, 12 bytes of scales, d. A number
 * whose third bit is 0 is lowered by 4. */
INLINE void dequant_q3_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 110) {
        float d = load_half(bytes + 108);
        for (size_t part = 0; part < 16; part++) {
            const unsigned char *packed = bytes + 32 + part / 8 * 32 + part % 2 * 16;
            const unsigned char *third = bytes + part % 2 * 16;
            unsigned shift = (unsigned)(part % 8 / 2 * 2), bit = (unsigned)(part / 2);
            float scale = d * (float)q3_scale(bytes + 96, part);
            bytes16 raised =
                (down(load16(packed), shift) & 3) | up(down(load16(third), bit) & 1, 2);
            put_scaled((numbers16)raised - 4, scale, out + i + part * 16);
        }
    }
}

/* Layout of Q4_K and Q5_K: d, dmin, 12 bytes of scales, for Q5_K 32 bytes of fifth bits, 128 bytes
 * of low bits. Each 32 bytes hold two blocks: the first in the low halves, the second in the high
 * ones. Bit b of the fifth bits belongs to block b. */
INLINE void dequant_q4_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 144) {
        float d = load_half(bytes), d_min = load_half(bytes + 2);
        for (unsigned block = 0; block < 8; block++) {
            const unsigned char *packed = bytes + 16 + block / 2 * 32;
            uint32_t scale, minimum;
            six_bit_scales(bytes + 4, block, &scale, &minimum);
            float factor = d * (float)scale, low = d_min * (float)minimum;
            for (size_t j = 0; j < BLOCK; j += 16) {
                bytes16 numbers = down(load16(packed + j), block % 2 * 4) & 15;
                put_lowered((numbers16)numbers, factor, low, out + i + block * BLOCK + j);
            }
        }
    }
}

INLINE void dequant_q5_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 176) {
        float d = load_half(bytes), d_min = load_half(bytes + 2);
        for (unsigned block = 0; block < 8; block++) {
            const unsigned char *packed = bytes + 48 + block / 2 * 32, *fifth = bytes + 16;
            uint32_t scale, minimum;
            six_bit_scales(bytes + 4, block, &scale, &minimum);
            float factor = d * (float)scale, low = d_min * (float)minimum;
            for (size_t j = 0; j < BLOCK; j += 16) {
                bytes16 numbers = down(load16(packed + j), block % 2 * 4) & 15;
                numbers |= up(down(load16(fifth + j), block) & 1, 4);
                put_lowered((numbers16)numbers, factor, low, out + i + block * BLOCK + j);
            }
        }
    }
}

/* Layout: 128 bytes of low four bits, 64 bytes of high two bits, 16 signed scales of 16 numbers
 * each, d. Each half of the super-block has 64 bytes of low bits, whose low halves are its first 64
 * numbers, and 32 bytes of high bits, in the order of Q2_K. */
INLINE void dequant_q6_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 210) {
        float d = load_half(bytes + 208);
        for (size_t part = 0; part < 16; part++) {
            size_t half = part / 8, in_half = part % 8;
            const unsigned char *low = bytes + half * 64 + in_half % 4 * 16;
            const unsigned char *high = bytes + 128 + half * 32 + in_half % 2 * 16;
            unsigned low_shift = (unsigned)(in_half / 4 * 4);
            unsigned high_shift = (unsigned)(in_half / 2 * 2);
            float scale = d * (float)(signed char)bytes[192 + part];
            bytes16 numbers =
                (down(load16(low), low_shift) & 15) | up(down(load16(high), high_shift) & 3, 4);
            put_scaled((numbers16)numbers - 32, scale, out + i + part * 16);
        }
    }
}

/* ---- tables of 16 values ---- */

/* the values of IQ4_NL and IQ4_XS */
static const numbers16 uneven_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
/* twice the values of FP4 (e2m1) */
static const numbers16 fp4_values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* values[index[i]] for each i; an index is below 16. */
INLINE numbers16 look_up(numbers16 values, bytes16 index)
{
#ifdef __clang__
    numbers16 out;
    for (int i = 0; i < 16; i++)
        out[i] = values[index[i]];
    return out;
#else
    return __builtin_shuffle(values, (numbers16)index);
#endif
}

INLINE void from_table(const unsigned char *packed, numbers16 values, float scale, float *out)
{
    bytes16 pairs = load16(packed);
    put_scaled(look_up(values, pairs & 15), scale, out);
    put_scaled(look_up(values, down(pairs, 4) & 15), scale, out + 16);
}

INLINE void dequant_iq4_nl(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 18)
        from_table(bytes + 2, uneven_values, load_half(bytes), out + i);
}

/* Layout: d, 16 bits of high bits and 4 bytes of low bits of the 8 blocks' scales, 128 bytes of
 * numbers. */
INLINE void dequant_iq4_xs(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 136) {
        float d = load_half(bytes);
        uint32_t high = load_u16(bytes + 2);
        for (unsigned block = 0; block < 8; block++) {
            uint32_t scale = ((unsigned)bytes[4 + block / 2] >> block % 2 * 4 & 15u) |
                             (high >> 2 * block & 3u) << 4;
            from_table(bytes + 8 + block * 16, uneven_values, d * (float)((int)scale - 32),
                       out + i + block * BLOCK);
        }
    }
}

/* The first byte e is a power of two: the scale of fp4_values is 2^(e - 128), which is subnormal
 * for e = 0 and 1. */
INLINE void dequant_mxfp4(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 17) {
        uint32_t e = bytes[0];
        float scale = from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        from_table(bytes + 1, fp4_values, scale, out + i);
    }
}

static const struct {
    const char *name;
    size_t block_numbers, block_bytes;
} storages[MR_STORAGE_COUNT] = {
    [MR_STORAGE_F32] = {"F32", 1, 4},
    [MR_STORAGE_F16] = {"F16", 1, 2},
    [MR_STORAGE_BF16] = {"BF16", 1, 2},
    [MR_STORAGE_Q4_0] = {"Q4_0", BLOCK, 18},
    [MR_STORAGE_Q4_1] = {"Q4_1", BLOCK, 20},
    [MR_STORAGE_Q5_0] = {"Q5_0", BLOCK, 22},
    [MR_STORAGE_Q5_1] = {"Q5_1", BLOCK, 24},
    [MR_STORAGE_Q8_0] = {"Q8_0", BLOCK, 34},
    [MR_STORAGE_Q2_K] = {"Q2_K", SUPER_BLOCK, 84},
    [MR_STORAGE_Q3_K] = {"Q3_K", SUPER_BLOCK, 110},
    [MR_STORAGE_Q4_K] = {"Q4_K", SUPER_BLOCK, 144},
    [MR_STORAGE_Q5_K] = {"Q5_K", SUPER_BLOCK, 176},
    [MR_STORAGE_Q6_K] = {"Q6_K", SUPER_BLOCK, 210},
    [MR_STORAGE_IQ4_NL] = {"IQ4_NL", BLOCK, 18},
    [MR_STORAGE_IQ4_XS] = {"IQ4_XS", SUPER_BLOCK, 136},
    [MR_STORAGE_MXFP4] = {"MXFP4", BLOCK, 17},
    [MR_STORAGE_F8_E4M3] = {"F8_E4M3", 1, 1},
    [MR_STORAGE_I8] = {"I8", 1, 1},
    [MR_STORAGE_U8] = {"U8", 1, 1},
    [MR_STORAGE_I32] = {"I32", 1, 4},
    [MR_STORAGE_I64] = {"I64", 1, 8},
    [MR_STORAGE_OTHER] = {"another type", 0, 0},
    [MR_STORAGE_PIECES] = {"quantized", 0, 0},
};

const char *mr_storage_name(enum mr_storage storage)
{
    return storages[storage].name;
}

size_t mr_storage_block_numbers(enum mr_storage storage)
{
    return storages[storage].block_numbers;
}

size_t mr_storage_block_bytes(enum mr_storage storage)
{
    return storages[storage].block_bytes;
}

/* ---- instruction sets ---- */

INLINE void convert_blocks(enum mr_storage storage, const unsigned char *bytes, size_t count,
                           float *out)
{
    switch (storage) {
    case MR_STORAGE_Q4_0:
        dequant_q4_0(bytes, count, out);
        break;
    case MR_STORAGE_Q4_1:
        dequant_q4_1(bytes, count, out);
        break;
    case MR_STORAGE_Q5_0:
        dequant_q5_0(bytes, count, out);
        break;
    case MR_STORAGE_Q5_1:
        dequant_q5_1(bytes, count, out);
        break;
    case MR_STORAGE_Q8_0:
        dequant_q8_0(bytes, count, out);
        break;
    case MR_STORAGE_Q2_K:
        dequant_q2_k(bytes, count, out);
        break;
    case MR_STORAGE_Q3_K:
        dequant_q3_k(bytes, count, out);
        break;
    case MR_STORAGE_Q4_K:
        dequant_q4_k(bytes, count, out);
        break;
    case MR_STORAGE_Q5_K:
        dequant_q5_k(bytes, count, out);
        break;
    case MR_STORAGE_Q6_K:
        dequant_q6_k(bytes, count, out);
        break;
    case MR_STORAGE_IQ4_NL:
        dequant_iq4_nl(bytes, count, out);
        break;
    case MR_STORAGE_IQ4_XS:
        dequant_iq4_xs(bytes, count, out);
        break;
    case MR_STORAGE_MXFP4:
        dequant_mxfp4(bytes, count, out);
        break;
    default:
        break;
    }
}

INLINE void convert(enum mr_storage storage, const unsigned char *bytes, size_t count, float *out)
{
    switch (storage) {
    case MR_STORAGE_F32:
        dequant_f32(bytes, count, out);
        break;
    case MR_STORAGE_F16:
        dequant_f16(bytes, count, out);
        break;
    case MR_STORAGE_BF16:
        dequant_bf16(bytes, count, out);
        break;
    case MR_STORAGE_F8_E4M3:
        dequant_f8_e4m3(bytes, count, out);
        break;
    case MR_STORAGE_I8:
        dequant_i8(bytes, count, out);
        break;
    case MR_STORAGE_U8:
        dequant_u8(bytes, count, out);
        break;
    case MR_STORAGE_I32:
        dequant_i32(bytes, count, out);
        break;
    case MR_STORAGE_I64:
        dequant_i64(bytes, count, out);
        break;
    default:
        convert_blocks(storage, bytes, count, out);
        break;
    }
}

static void convert_baseline(enum mr_storage storage, const unsigned char *bytes, size_t count,
                             float *out)
{
    convert(storage, bytes, count, out);
}

/* Builds with clang, used only for the fuzz targets, have only the portable copy. */
#if defined(__x86_64__) && !defined(__clang__)
#define HAS_LEVELS
__attribute__((target("avx2"))) static void
convert_avx2(enum mr_storage storage, const unsigned char *bytes, size_t count, float *out)
{
    convert(storage, bytes, count, out);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"))) static void
convert_avx512(enum mr_storage storage, const unsigned char *bytes, size_t count, float *out)
{
    convert(storage, bytes, count, out);
}
#endif

void mr_dequant(enum mr_storage storage, const void *bytes, size_t count, float *out)
{
    MR_ASSERT(storage < MR_STORAGE_OTHER && count % storages[storage].block_numbers == 0);
#ifdef HAS_LEVELS
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        convert_avx512(storage, bytes, count, out);
    else if (__builtin_cpu_supports("avx2"))
        convert_avx2(storage, bytes, count, out);
    else
#endif
        convert_baseline(storage, bytes, count, out);
}

float mr_float_of_half(uint16_t half)
{
    float x;
    mr_dequant(MR_STORAGE_F16, &half, 1, &x);
    return x;
}

uint16_t mr_half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x47800000u)
        return (uint16_t)(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
    if (magnitude < 0x38800000u) /* subnormal: a multiple of 2^-24 */
        return (uint16_t)(sign | (uint32_t)rintf(fabsf(x) * 0x1p24f));
    const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}
