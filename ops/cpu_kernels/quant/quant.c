#include "ops/cpu_kernels/quant/quant.h"

#include <math.h>
#include <string.h>

#define COLUMNS     MR_QUANT_COLUMNS
#define GROUP       MR_QUANT_GROUP
#define GROUPS_EACH MR_QUANT_GROUPS_EACH

enum mr_quant_format mr_quant_format_of(enum mr_storage storage)
{
    static const enum mr_quant_format formats[MR_STORAGE_COUNT] = {
        [MR_STORAGE_Q4_0] = MR_QUANT_Q4_0,     [MR_STORAGE_Q4_1] = MR_QUANT_Q4_1,
        [MR_STORAGE_Q5_0] = MR_QUANT_Q5_0,     [MR_STORAGE_Q5_1] = MR_QUANT_Q5_1,
        [MR_STORAGE_Q8_0] = MR_QUANT_Q8_0,     [MR_STORAGE_Q4_K] = MR_QUANT_Q4_K,
        [MR_STORAGE_Q5_K] = MR_QUANT_Q5_K,     [MR_STORAGE_Q6_K] = MR_QUANT_Q6_K,
        [MR_STORAGE_IQ4_NL] = MR_QUANT_IQ4_NL, [MR_STORAGE_IQ4_XS] = MR_QUANT_IQ4_XS,
        [MR_STORAGE_MXFP4] = MR_QUANT_MXFP4,
    };
    return formats[storage];
}

enum mr_storage mr_quant_storage_of(enum mr_quant_format format)
{
    static const enum mr_storage storages[MR_QUANT_COUNT] = {
        [MR_QUANT_Q4_0] = MR_STORAGE_Q4_0,     [MR_QUANT_Q4_1] = MR_STORAGE_Q4_1,
        [MR_QUANT_Q5_0] = MR_STORAGE_Q5_0,     [MR_QUANT_Q5_1] = MR_STORAGE_Q5_1,
        [MR_QUANT_Q8_0] = MR_STORAGE_Q8_0,     [MR_QUANT_Q4_K] = MR_STORAGE_Q4_K,
        [MR_QUANT_Q5_K] = MR_STORAGE_Q5_K,     [MR_QUANT_Q6_K] = MR_STORAGE_Q6_K,
        [MR_QUANT_IQ4_NL] = MR_STORAGE_IQ4_NL, [MR_QUANT_IQ4_XS] = MR_STORAGE_IQ4_XS,
        [MR_QUANT_MXFP4] = MR_STORAGE_MXFP4,
    };
    return storages[format];
}

size_t mr_quant_panel_bytes(enum mr_quant_format format, uint32_t in_size)
{
    const struct mr_quant_parts parts =
        mr_quant_parts_of(&mr_quant_shapes[format], mr_quant_group_count(in_size));
    return (parts.end + MR_QUANT_LINE - 1) / MR_QUANT_LINE * MR_QUANT_LINE;
}

/* ---- quantizing floats ---- */

static float largest(const float *x, uint32_t count)
{
    float top = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) return NAN;
        if (fabsf(x[i]) > top) top = fabsf(x[i]);
    }
    return top;
}

/* Returns the nearest integer, half to even, limited to the bounds, which are small; for NaN the
 * lower bound. rintf, fminf and fmaxf would be calls of the C library on baseline x86-64. */
static float rounded(float x, float least, float most)
{
    const float whole = x + 0x1.8p23f - 0x1.8p23f; /* exact for magnitudes below 2^22 */
    if (!(whole > least)) return least;
    return whole > most ? most : whole;
}

/* Quantizes a group of one output: writes its two halves, and byte i of its codes to codes[i / 4 *
 * MR_QUANT_LINE + i % 4]. The scale is rounded up, so that 255 steps reach from the smallest to the
 * largest number. */
static void quantize_group(const float *x, uint32_t count, uint16_t halves[2], unsigned char *codes)
{
    float least = x[0], most = x[0];
    const bool finite = !isnan(largest(x, count));
    for (uint32_t i = 1; i < count && finite; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    const float step = finite ? most / 255.0f - least / 255.0f : NAN;
    halves[0] = mr_half_of(step);
    if (mr_float_of_half(halves[0]) < step) halves[0]++;
    const float scale = mr_float_of_half(halves[0]);
    halves[1] = mr_half_of(finite ? least + 128.0f * scale : NAN);
    const float low = mr_float_of_half(halves[1]), inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (uint32_t i = 0; i < GROUP; i++) {
        const float code =
            i < count && finite ? rounded((x[i] - low) * inverse, -128.0f, 127.0f) : 0.0f;
        codes[i / 4 * MR_QUANT_LINE + i % 4] = (unsigned char)(code + 128.0f);
    }
}

void mr_quant_pack_int8(uint32_t in_size, const float *rows, unsigned char *panel)
{
    const struct mr_quant_shape *shape = &mr_quant_shapes[MR_QUANT_INT8];
    const uint32_t groups = mr_quant_group_count(in_size);
    unsigned char *scales = panel + mr_quant_parts_of(shape, groups).scales;
    for (uint32_t g = 0; g < groups; g++, scales += shape->group_bytes) {
        const uint32_t left = in_size - g * GROUP, count = left < GROUP ? left : GROUP;
        for (size_t c = 0; c < COLUMNS; c++) {
            uint16_t halves[2];
            quantize_group(rows + c * in_size + (size_t)g * GROUP, count, halves,
                           panel + (size_t)g * mr_quant_group_lines(shape) + c * 4);
            memcpy(scales + 2 * c, &halves[0], 2);
            memcpy(scales + 32 + 2 * c, &halves[1], 2);
        }
    }
}

/* Returns the squared error of a block with the scale d, and its codes. */
static float try_scale(const float *x, uint32_t count, float d, unsigned char codes[GROUP])
{
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    float error = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        const float code = rounded(x[i] * inverse, -8.0f, 7.0f);
        const float off = x[i] - d * code;
        error += off * off;
        codes[i] = (unsigned char)(code + 8.0f);
    }
    return error;
}

/* Tries scales of the number of largest magnitude divided by -6.5 to -9, so that its code is about
 * -8. */
static void quantize_block(const float *x, uint32_t count, unsigned char *block)
{
    unsigned char codes[GROUP], best[GROUP];
    float top = 0.0f, error = INFINITY, tail;
    memset(codes, 8, sizeof codes);
    memset(best, 8, sizeof best);
    for (uint32_t i = 0; i < count; i++)
        if (fabsf(x[i]) > fabsf(top)) top = x[i];
    uint16_t chosen = isnan(largest(x, count)) ? 0x7e00u : 0;
    for (uint32_t i = 0; i <= 10 && top != 0.0f && chosen != 0x7e00u; i++) {
        const uint16_t half = mr_half_of(top / (-6.5f - 0.25f * (float)i));
        tail = try_scale(x, count, mr_float_of_half(half), codes);
        if (!(tail < error)) continue;
        error = tail;
        chosen = half;
        memcpy(best, codes, sizeof best);
    }
    memcpy(block, &chosen, 2);
    for (uint32_t i = 0; i < 16; i++)
        block[2 + i] = (unsigned char)(best[i] | best[i + 16] << 4);
}

void mr_quant_to_q4_0(uint32_t in_size, const float *row, unsigned char *blocks)
{
    for (uint32_t i = 0; i < in_size; i += GROUP, blocks += 18)
        quantize_block(row + i, in_size - i < GROUP ? in_size - i : GROUP, blocks);
}

/* ---- reading a panel ---- */

static float half_at(const unsigned char *halves, uint32_t column)
{
    uint16_t half;
    memcpy(&half, halves + 2 * (size_t)column, sizeof half);
    return mr_float_of_half(half);
}

static uint32_t code_at(const struct mr_quant_shape *shape, const unsigned char *lines,
                        uint32_t column, uint32_t i)
{
    const uint32_t j = i / 4, byte = column * 4 + i % 4;
    if (shape->bits == 8) return lines[j * MR_QUANT_LINE + byte];
    uint32_t code = (uint32_t)lines[j % 4 * MR_QUANT_LINE + byte] >> j / 4 * 4 & 15u;
    if (shape->values) code = ((const unsigned char *)shape->values)[code];
    if (shape->bits == 5) code |= ((uint32_t)lines[4 * MR_QUANT_LINE + byte] >> j & 1u) << 4;
    if (shape->bits == 6)
        code |= ((uint32_t)lines[(4 + j / 4) * MR_QUANT_LINE + byte] >> j % 4 * 2 & 3u) << 4;
    return code;
}

/* Sets the scales of the two halves of a group, and the number that is added to its weights. */
static void scales_at(const struct mr_quant_shape *shape, const unsigned char *scales,
                      const unsigned char *blocks, uint32_t column, float scale[2], float *low)
{
    const signed char *small = (const signed char *)scales;
    scale[0] = *low = 0.0f;
    switch (shape->scales) {
    case MR_SCALES_HALF:
        scale[0] = half_at(scales, column);
        break;
    case MR_SCALES_BF16:
        mr_dequant(MR_STORAGE_BF16, scales + 2 * (size_t)column, 1, scale);
        break;
    case MR_SCALES_HALF_LOW:
        scale[0] = half_at(scales, column);
        *low = half_at(scales + 32, column);
        break;
    case MR_SCALES_BLOCK_LOW:
        scale[0] = half_at(blocks, column) * (float)scales[column];
        *low = -(half_at(blocks + 32, column) * (float)scales[16 + column]);
        break;
    case MR_SCALES_BLOCK_EACH:
        scale[0] = half_at(blocks, column) * (float)small[column];
        break;
    case MR_SCALES_BLOCK_16:
        scale[0] = half_at(blocks, column) * (float)small[column];
        scale[1] = half_at(blocks, column) * (float)small[16 + column];
        return;
    }
    scale[1] = scale[0];
}

void mr_quant_unpack(enum mr_quant_format format, uint32_t in_size, const unsigned char *panel,
                     uint32_t column, float *out)
{
    const struct mr_quant_shape *shape = &mr_quant_shapes[format];
    const uint32_t groups = mr_quant_group_count(in_size);
    const struct mr_quant_parts parts = mr_quant_parts_of(shape, groups);
    const int offset = shape->shift > 0 ? 1 << shape->shift : 0;
    for (uint32_t g = 0; g < groups; g++) {
        const unsigned char *lines = panel + (size_t)g * mr_quant_group_lines(shape);
        const unsigned char *blocks =
            panel + parts.blocks + (size_t)(g / GROUPS_EACH) * shape->block_bytes;
        float scale[2], low;
        scales_at(shape, panel + parts.scales + (size_t)g * shape->group_bytes, blocks, column,
                  scale, &low);
        const uint32_t left = in_size - g * GROUP, count = left < GROUP ? left : GROUP;
        for (uint32_t i = 0; i < count; i++) {
            const int code = (int)code_at(shape, lines, column, i) - offset;
            out[g * GROUP + i] = scale[i / 16] * (float)code + low;
        }
    }
}
