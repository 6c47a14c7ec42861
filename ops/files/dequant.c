#include "ops/files/dequant.h"

#include "codec/check.h"

#include <string.h>

#define BLOCK       32u
#define SUPER_BLOCK 256u

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint16_t load_u16(const unsigned char *bytes)
{
    uint16_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static uint32_t load_u32(const unsigned char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* A subnormal half-precision number is its 10 fraction bits times 2^-24. Every other number keeps
 * its fraction, and its exponent grows by 112, the difference of the exponent biases of float and
 * half. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t rebiased = exponent == 31 ? 255u : exponent + 112u;
    return from_bits(sign | rebiased << 23 | fraction << 13);
}

static float load_half(const unsigned char *bytes)
{
    return half_to_float(load_u16(bytes));
}

static void dequant_f32(const unsigned char *bytes, size_t count, float *out)
{
    memcpy(out, bytes, count * sizeof(float));
}

static void dequant_f16(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = load_half(bytes + 2 * i);
}

static void dequant_bf16(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = from_bits((uint32_t)load_u16(bytes + 2 * i) << 16);
}

/* Each number q becomes (q + lowered) * scale + offset; lowered is -8, -16 or 0. */
static void four_bits(const unsigned char *packed, int lowered, float scale, float offset,
                      float *out)
{
    for (size_t i = 0; i < BLOCK / 2; i++) {
        out[i] = (float)((packed[i] & 15) + lowered) * scale + offset;
        out[i + BLOCK / 2] = (float)((packed[i] >> 4) + lowered) * scale + offset;
    }
}

static void five_bits(const unsigned char *packed, int lowered, float scale, float offset,
                      float *out)
{
    uint32_t fifth = load_u32(packed);
    for (size_t i = 0; i < BLOCK / 2; i++) {
        unsigned char pair = packed[4 + i];
        int low = (pair & 15) | (int)((fifth >> i) & 1u) << 4;
        int high = (pair >> 4) | (int)((fifth >> (i + BLOCK / 2)) & 1u) << 4;
        out[i] = (float)(low + lowered) * scale + offset;
        out[i + BLOCK / 2] = (float)(high + lowered) * scale + offset;
    }
}

/* The offset -0 changes no number, not even the sign of a zero. */
static void dequant_q4_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 18)
        four_bits(bytes + 2, -8, load_half(bytes), -0.0f, out + i);
}

static void dequant_q4_1(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 20)
        four_bits(bytes + 4, 0, load_half(bytes), load_half(bytes + 2), out + i);
}

static void dequant_q5_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 22)
        five_bits(bytes + 2, -16, load_half(bytes), -0.0f, out + i);
}

static void dequant_q5_1(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 24)
        five_bits(bytes + 4, 0, load_half(bytes), load_half(bytes + 2), out + i);
}

static void dequant_q8_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 34) {
        float scale = load_half(bytes);
        for (size_t j = 0; j < BLOCK; j++)
            out[i + j] = (float)(signed char)bytes[2 + j] * scale;
    }
}

/* ---- super-blocks of 256 numbers ---- */

/* Scales and minimums of 6 bits of the 8 blocks of a super-block, 12 bytes. Those of blocks 0 to 3
 * are in the low six bits of bytes 0..3 and 4..7; those of blocks 4 to 7 have their low four bits
 * in the halves of bytes 8..11, and their high two bits above the ones of blocks 0 to 3. */
static void six_bit_scales(const unsigned char *packed, unsigned block, uint32_t *scale,
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
static void dequant_q2_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 84) {
        float d = load_half(bytes + 80), d_min = load_half(bytes + 82);
        for (size_t part = 0; part < 16; part++) {
            const unsigned char *packed = bytes + 16 + part / 8 * 32 + part % 2 * 16;
            unsigned shift = (unsigned)(part % 8 / 2 * 2);
            float scale = d * (float)(bytes[part] & 15), low = d_min * (float)(bytes[part] >> 4);
            for (size_t j = 0; j < 16; j++)
                out[i + part * 16 + j] = scale * (float)(packed[j] >> shift & 3) - low;
        }
    }
}

/* The 16 signed scales of 6 bits of a Q3_K super-block, 12 bytes: the low four bits are in the
 * halves of bytes 0..7, the high two bits in bytes 8..11. */
static int q3_scale(const unsigned char *packed, size_t part)
{
    unsigned low = part < 8 ? packed[part] & 15u : packed[part - 8] >> 4;
    unsigned high = (unsigned)packed[8 + part % 4] >> (part / 4 * 2) & 3u;
    return (int)(low | high << 4) - 32;
}

/* Layout: 32 bytes of third bits, 64 bytes of low bits as Q2_K, 12 bytes of scales, d. A number
 * whose third bit is 0 is lowered by 4. */
static void dequant_q3_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 110) {
        float d = load_half(bytes + 108);
        for (size_t part = 0; part < 16; part++) {
            const unsigned char *packed = bytes + 32 + part / 8 * 32 + part % 2 * 16;
            const unsigned char *third = bytes + part % 2 * 16;
            unsigned shift = (unsigned)(part % 8 / 2 * 2), bit = (unsigned)(part / 2);
            float scale = d * (float)q3_scale(bytes + 96, part);
            for (size_t j = 0; j < 16; j++) {
                int number = (packed[j] >> shift & 3) - ((third[j] >> bit & 1) ? 0 : 4);
                out[i + part * 16 + j] = scale * (float)number;
            }
        }
    }
}

/* Layout of Q4_K and Q5_K: d, dmin, 12 bytes of scales, for Q5_K 32 bytes of fifth bits, 128 bytes
 * of low bits. Each 32 bytes hold two blocks: the first in the low halves, the second in the high
 * ones. Bit b of the fifth bits belongs to block b. */
static void dequant_q4_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 144) {
        float d = load_half(bytes), d_min = load_half(bytes + 2);
        for (unsigned block = 0; block < 8; block++) {
            const unsigned char *packed = bytes + 16 + block / 2 * 32;
            uint32_t scale, minimum;
            six_bit_scales(bytes + 4, block, &scale, &minimum);
            float factor = d * (float)scale, low = d_min * (float)minimum;
            for (size_t j = 0; j < BLOCK; j++)
                out[i + block * BLOCK + j] =
                    factor * (float)(packed[j] >> block % 2 * 4 & 15) - low;
        }
    }
}

static void dequant_q5_k(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += SUPER_BLOCK, bytes += 176) {
        float d = load_half(bytes), d_min = load_half(bytes + 2);
        for (unsigned block = 0; block < 8; block++) {
            const unsigned char *packed = bytes + 48 + block / 2 * 32, *fifth = bytes + 16;
            uint32_t scale, minimum;
            six_bit_scales(bytes + 4, block, &scale, &minimum);
            float factor = d * (float)scale, low = d_min * (float)minimum;
            for (size_t j = 0; j < BLOCK; j++) {
                int number = (packed[j] >> block % 2 * 4 & 15) | (fifth[j] >> block & 1) << 4;
                out[i + block * BLOCK + j] = factor * (float)number - low;
            }
        }
    }
}

/* Layout: 128 bytes of low four bits, 64 bytes of high two bits, 16 signed scales of 16 numbers
 * each, d. Each half of the super-block has 64 bytes of low bits, whose low halves are its first 64
 * numbers, and 32 bytes of high bits, in the order of Q2_K. */
static void dequant_q6_k(const unsigned char *bytes, size_t count, float *out)
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
            for (size_t j = 0; j < 16; j++) {
                int number = (low[j] >> low_shift & 15) | (high[j] >> high_shift & 3) << 4;
                out[i + part * 16 + j] = scale * (float)(number - 32);
            }
        }
    }
}

/* ---- tables of 16 values ---- */

/* the values of IQ4_NL and IQ4_XS */
static const signed char uneven_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};
/* twice the values of FP4 (e2m1) */
static const signed char fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void from_table(const unsigned char *packed, const signed char *values, float scale,
                       float *out)
{
    for (size_t i = 0; i < BLOCK / 2; i++) {
        out[i] = scale * (float)values[packed[i] & 15];
        out[i + BLOCK / 2] = scale * (float)values[packed[i] >> 4];
    }
}

static void dequant_iq4_nl(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 18)
        from_table(bytes + 2, uneven_values, load_half(bytes), out + i);
}

/* Layout: d, 16 bits of high bits and 4 bytes of low bits of the 8 blocks' scales, 128 bytes of
 * numbers. */
static void dequant_iq4_xs(const unsigned char *bytes, size_t count, float *out)
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
static void dequant_mxfp4(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 17) {
        uint32_t e = bytes[0];
        float scale = from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        from_table(bytes + 1, fp4_values, scale, out + i);
    }
}

static const struct storage {
    const char *name;
    size_t block_numbers, block_bytes;
    void (*dequant)(const unsigned char *bytes, size_t count, float *out);
} storages[MR_STORAGE_COUNT] = {
    [MR_STORAGE_F32] = {"F32", 1, 4, dequant_f32},
    [MR_STORAGE_F16] = {"F16", 1, 2, dequant_f16},
    [MR_STORAGE_BF16] = {"BF16", 1, 2, dequant_bf16},
    [MR_STORAGE_Q4_0] = {"Q4_0", BLOCK, 18, dequant_q4_0},
    [MR_STORAGE_Q4_1] = {"Q4_1", BLOCK, 20, dequant_q4_1},
    [MR_STORAGE_Q5_0] = {"Q5_0", BLOCK, 22, dequant_q5_0},
    [MR_STORAGE_Q5_1] = {"Q5_1", BLOCK, 24, dequant_q5_1},
    [MR_STORAGE_Q8_0] = {"Q8_0", BLOCK, 34, dequant_q8_0},
    [MR_STORAGE_Q2_K] = {"Q2_K", SUPER_BLOCK, 84, dequant_q2_k},
    [MR_STORAGE_Q3_K] = {"Q3_K", SUPER_BLOCK, 110, dequant_q3_k},
    [MR_STORAGE_Q4_K] = {"Q4_K", SUPER_BLOCK, 144, dequant_q4_k},
    [MR_STORAGE_Q5_K] = {"Q5_K", SUPER_BLOCK, 176, dequant_q5_k},
    [MR_STORAGE_Q6_K] = {"Q6_K", SUPER_BLOCK, 210, dequant_q6_k},
    [MR_STORAGE_IQ4_NL] = {"IQ4_NL", BLOCK, 18, dequant_iq4_nl},
    [MR_STORAGE_IQ4_XS] = {"IQ4_XS", SUPER_BLOCK, 136, dequant_iq4_xs},
    [MR_STORAGE_MXFP4] = {"MXFP4", BLOCK, 17, dequant_mxfp4},
    [MR_STORAGE_OTHER] = {"another type", 0, 0, NULL},
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

void mr_dequant(enum mr_storage storage, const void *bytes, size_t count, float *out)
{
    MR_ASSERT(storage < MR_STORAGE_OTHER && count % storages[storage].block_numbers == 0);
    storages[storage].dequant(bytes, count, out);
}
