#include "ops/files/dequant.h"

#include "codec/check.h"

#include <string.h>

#define BLOCK 32u

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

static void four_bits(const unsigned char *packed, float scale, float offset, float *out)
{
    for (size_t i = 0; i < BLOCK / 2; i++) {
        out[i] = (float)(packed[i] & 15) * scale + offset;
        out[i + BLOCK / 2] = (float)(packed[i] >> 4) * scale + offset;
    }
}

static void five_bits(const unsigned char *packed, uint32_t fifth, float scale, float offset,
                      float *out)
{
    for (size_t i = 0; i < BLOCK / 2; i++) {
        uint32_t low = (uint32_t)(packed[i] & 15) | ((fifth >> i) & 1u) << 4;
        uint32_t high = (uint32_t)(packed[i] >> 4) | ((fifth >> (i + BLOCK / 2)) & 1u) << 4;
        out[i] = (float)low * scale + offset;
        out[i + BLOCK / 2] = (float)high * scale + offset;
    }
}

/* q d - 8 d gives the same float as (q - 8) d, because 8 d and q d are exact (4 + 11 bits). */
static void dequant_q4_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 18) {
        float scale = load_half(bytes);
        four_bits(bytes + 2, scale, -8.0f * scale, out + i);
    }
}

static void dequant_q4_1(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 20)
        four_bits(bytes + 4, load_half(bytes), load_half(bytes + 2), out + i);
}

static void dequant_q5_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 22) {
        float scale = load_half(bytes);
        five_bits(bytes + 6, load_u32(bytes + 2), scale, -16.0f * scale, out + i);
    }
}

static void dequant_q5_1(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 24)
        five_bits(bytes + 8, load_u32(bytes + 4), load_half(bytes), load_half(bytes + 2), out + i);
}

static void dequant_q8_0(const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += BLOCK, bytes += 34) {
        float scale = load_half(bytes);
        for (size_t j = 0; j < BLOCK; j++)
            out[i + j] = (float)(signed char)bytes[2 + j] * scale;
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
