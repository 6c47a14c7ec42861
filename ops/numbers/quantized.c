#include "ops/numbers/quantized.h"

#include "codec/check.h"

#include <math.h>
#include <string.h>

/* The scale and zero point of each group of one row. */
struct groups {
    float scale[MR_QUANTIZED_GROUPS_MAX], zero[MR_QUANTIZED_GROUPS_MAX];
};

static uint32_t load_word(const unsigned char *bytes, size_t index)
{
    uint32_t word;
    memcpy(&word, bytes + index * sizeof(word), sizeof(word));
    return word;
}

/* Reads `count` numbers from number `first` of a piece of floats or integers. */
static void read_numbers(const struct mr_quantized_piece *piece, size_t first, size_t count,
                         float *out)
{
    size_t bytes = mr_storage_block_bytes(piece->storage);
    mr_dequant(piece->storage, piece->bytes + first * bytes, count, out);
}

/* ---- stored numbers ---- */

/* AutoAWQ stores the columns 0 2 4 6 1 3 5 7 in the places 0 to 7 of a word. */
static const uint32_t awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint32_t mask_of(uint32_t bits)
{
    return (1u << bits) - 1u;
}

static void unpack_packed(const struct mr_quantized *q, size_t row, float *out)
{
    uint32_t per = 32 / q->bits, mask = mask_of(q->bits);
    size_t words = (q->width + (size_t)per - 1) / per;
    for (uint32_t i = 0; i < q->width; i++)
        out[i] = (float)(load_word(q->pieces[MR_QUANTIZED_WEIGHT].bytes, row * words + i / per) >>
                             i % per * q->bits &
                         mask);
}

static void unpack_awq(const struct mr_quantized *q, size_t row, float *out)
{
    size_t words = q->rows / 8;
    uint32_t shift = 4 * awq_place[row % 8];
    for (uint32_t i = 0; i < q->width; i++)
        out[i] =
            (float)(load_word(q->pieces[MR_QUANTIZED_WEIGHT].bytes, i * words + row / 8) >> shift &
                    15u);
}

static void unpack_gptq(const struct mr_quantized *q, size_t row, float *out)
{
    uint32_t per = 32 / q->bits, mask = mask_of(q->bits);
    for (uint32_t i = 0; i < q->width; i += per) {
        uint32_t word =
            load_word(q->pieces[MR_QUANTIZED_WEIGHT].bytes, (size_t)(i / per) * q->rows + row);
        for (uint32_t j = 0; j < per; j++, word >>= q->bits)
            out[i + j] = (float)(word & mask);
    }
}

static void unpack_mxfp4(const struct mr_quantized *q, size_t row, float *out)
{
    static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    const unsigned char *from = q->pieces[MR_QUANTIZED_WEIGHT].bytes + row * (q->width / 2);
    for (uint32_t i = 0; i < q->width; i += 2, from++) {
        out[i] = values[*from & 15];
        out[i + 1] = values[*from >> 4];
    }
}

static void unpack(const struct mr_quantized *q, size_t row, float *out)
{
    switch (q->format) {
    case MR_QUANTIZED_SCALED:
        read_numbers(&q->pieces[MR_QUANTIZED_WEIGHT], row * q->width, q->width, out);
        break;
    case MR_QUANTIZED_PACKED:
        unpack_packed(q, row, out);
        break;
    case MR_QUANTIZED_AWQ:
        unpack_awq(q, row, out);
        break;
    case MR_QUANTIZED_GPTQ:
        unpack_gptq(q, row, out);
        break;
    case MR_QUANTIZED_MXFP4:
        unpack_mxfp4(q, row, out);
        break;
    }
}

/* ---- groups ---- */

static void scaled_groups(const struct mr_quantized *q, size_t row, struct groups *groups)
{
    size_t first = row / q->row_block * q->group_count;
    read_numbers(&q->pieces[MR_QUANTIZED_SCALE], first, q->group_count, groups->scale);
    if (q->pieces[MR_QUANTIZED_ZERO].bytes)
        read_numbers(&q->pieces[MR_QUANTIZED_ZERO], first, q->group_count, groups->zero);
}

static void packed_groups(const struct mr_quantized *q, size_t row, struct groups *groups)
{
    uint32_t per = 32 / q->bits, shift = (uint32_t)(row % per) * q->bits;
    read_numbers(&q->pieces[MR_QUANTIZED_SCALE], row * q->group_count, q->group_count,
                 groups->scale);
    const unsigned char *zeros = q->pieces[MR_QUANTIZED_ZERO].bytes;
    for (uint32_t g = 0; g < q->group_count; g++)
        groups->zero[g] = zeros
                              ? (float)(load_word(zeros, row / per * q->group_count + g) >> shift &
                                        mask_of(q->bits))
                              : (float)(1u << (q->bits - 1));
}

static void column_groups(const struct mr_quantized *q, size_t row, struct groups *groups)
{
    uint32_t per = 32 / q->bits, mask = mask_of(q->bits), place = (uint32_t)(row % per);
    uint32_t shift = q->bits * (q->format == MR_QUANTIZED_AWQ ? awq_place[place] : place);
    for (uint32_t g = 0; g < q->group_count; g++) {
        uint32_t zero = load_word(q->pieces[MR_QUANTIZED_ZERO].bytes,
                                  (size_t)g * (q->rows / per) + row / per) >>
                        shift;
        groups->zero[g] = (float)((zero + (q->zero_less_one ? 1u : 0u)) & mask);
        read_numbers(&q->pieces[MR_QUANTIZED_SCALE], (size_t)g * q->rows + row, 1,
                     &groups->scale[g]);
    }
}

/* A power of two 2^(e - 127): for e = 0 a subnormal float, for e = 255 infinity. */
static void power_groups(const struct mr_quantized *q, size_t row, struct groups *groups)
{
    const unsigned char *from = q->pieces[MR_QUANTIZED_SCALE].bytes + row * q->group_count;
    for (uint32_t g = 0; g < q->group_count; g++) {
        uint32_t bits = from[g] > 0 ? (uint32_t)from[g] << 23 : 0x00400000u;
        memcpy(&groups->scale[g], &bits, sizeof(bits));
    }
}

static void read_groups(const struct mr_quantized *q, size_t row, struct groups *groups)
{
    memset(groups->zero, 0, q->group_count * sizeof(groups->zero[0]));
    switch (q->format) {
    case MR_QUANTIZED_SCALED:
        scaled_groups(q, row, groups);
        break;
    case MR_QUANTIZED_PACKED:
        packed_groups(q, row, groups);
        break;
    case MR_QUANTIZED_AWQ:
    case MR_QUANTIZED_GPTQ:
        column_groups(q, row, groups);
        break;
    case MR_QUANTIZED_MXFP4:
        power_groups(q, row, groups);
        break;
    }
}

void mr_quantized_row(const struct mr_quantized *quantized, uint64_t row, float *out)
{
    const struct mr_quantized *q = quantized;
    struct groups groups;
    MR_ASSERT(row < q->rows && q->group_count <= MR_QUANTIZED_GROUPS_MAX);
    unpack(q, (size_t)row, out);
    read_groups(q, (size_t)row, &groups);
    const unsigned char *order = q->pieces[MR_QUANTIZED_ORDER].bytes;
    for (uint32_t i = 0; order && i < q->width; i++) {
        uint32_t g = load_word(order, i);
        MR_ASSERT(g < q->group_count);
        out[i] = (out[i] - groups.zero[g]) * groups.scale[g];
    }
    for (uint32_t g = 0, begin = 0; !order && begin < q->width; g++, begin += q->group_width) {
        uint32_t left = q->width - begin, count = left < q->group_width ? left : q->group_width;
        for (uint32_t i = begin; i < begin + count; i++)
            out[i] = (out[i] - groups.zero[g]) * groups.scale[g];
    }
}

/* ---- blocks of Q4_1 ---- */

enum { Q4_1_NUMBERS = 32, Q4_1_BYTES = 20 }; /* of a block, as dequant.c has them */

static bool is_ordered(const struct mr_quantized *q)
{
    const unsigned char *order = q->pieces[MR_QUANTIZED_ORDER].bytes;
    for (uint32_t i = 0; order && i < q->width; i++)
        if (load_word(order, i) != i / q->group_width) return false;
    return true;
}

bool mr_quantized_fits_q4_1(const struct mr_quantized *quantized)
{
    const struct mr_quantized *q = quantized;
    return q->bits == 4 && q->width % Q4_1_NUMBERS == 0 &&
           (q->group_width % Q4_1_NUMBERS == 0 || q->group_width >= q->width) && is_ordered(q);
}

bool mr_quantized_row_q4_1(const struct mr_quantized *quantized, uint64_t row, float *numbers,
                           unsigned char *blocks)
{
    const struct mr_quantized *q = quantized;
    struct groups groups;
    MR_ASSERT(row < q->rows && q->group_count <= MR_QUANTIZED_GROUPS_MAX);
    unpack(q, (size_t)row, numbers);
    read_groups(q, (size_t)row, &groups);
    for (uint32_t i = 0; i < q->width; i += Q4_1_NUMBERS, blocks += Q4_1_BYTES) {
        const uint32_t g = i / q->group_width;
        const float low = -groups.zero[g] * groups.scale[g];
        const uint16_t halves[2] = {mr_half_of(groups.scale[g]), mr_half_of(low)};
        if (mr_float_of_half(halves[0]) != groups.scale[g] ||
            !isfinite(mr_float_of_half(halves[1])))
            return false;
        memcpy(blocks, halves, sizeof halves);
        for (uint32_t k = 0; k < Q4_1_NUMBERS / 2; k++)
            blocks[sizeof halves + k] =
                (unsigned char)((uint32_t)numbers[i + k] |
                                (uint32_t)numbers[i + k + Q4_1_NUMBERS / 2] << 4);
    }
    return true;
}

const char *mr_quantized_name(const struct mr_quantized *quantized)
{
    switch (quantized->format) {
    case MR_QUANTIZED_SCALED:
        return "scaled";
    case MR_QUANTIZED_PACKED:
        return "packed";
    case MR_QUANTIZED_AWQ:
        return "AWQ";
    case MR_QUANTIZED_GPTQ:
        return quantized->zero_less_one ? "GPTQ" : "GPTQ v2";
    case MR_QUANTIZED_MXFP4:
        return "MXFP4";
    }
    return "";
}
