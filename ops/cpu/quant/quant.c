#include "ops/cpu/quant/quant.h"

#include "codec/check.h"

#include <math.h>
#include <string.h>

#define COLUMNS     MR_QUANT_COLUMNS
#define GROUP       MR_QUANT_GROUP
#define GROUPS_EACH MR_QUANT_GROUPS_EACH
#define BLOCK_BYTES 256u /* no stored block is larger */

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

static enum mr_storage storage_of(enum mr_quant_format format)
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

/* ---- from stored blocks to codes ---- */

typedef unsigned char bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));

static bytes16 load16(const unsigned char *bytes)
{
    bytes16 value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static void store16(bytes16 value, unsigned char *bytes)
{
    memcpy(bytes, &value, sizeof value);
}

/* Each byte shifted down, above which bits of the next byte appear: the caller clears them. */
static bytes16 down(bytes16 bytes, unsigned count)
{
    return (bytes16)((halves8)bytes >> (uint16_t)count);
}

static bytes16 up(bytes16 bytes, unsigned count)
{
    return (bytes16)((halves8)bytes << (uint16_t)count);
}

/* The codes of one group of one column: for formats of 4 bits 16 bytes, of which byte i has number
 * i in its low half and number 16 + i in its high half; else a byte for each of the 32 numbers. */
typedef unsigned char group_codes[GROUP];

/* What a stored block of one row has: codes and scales as they lie in a panel, for one column. */
struct block {
    group_codes codes[GROUPS_EACH];
    unsigned char scale[GROUPS_EACH][2]; /* bytes of MR_SCALES_BLOCK_* */
    unsigned char halves[2][2];          /* 16-bit scales of the group or block */
};

/* Sixteen fifth bits, from bit 0 of the two bytes on, as numbers 0 or 16. */
static bytes16 fifth_bits(const unsigned char *bytes)
{
    const bytes16 bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const bytes16 first = (bytes16){0} + bytes[0], second = (bytes16){0} + bytes[1];
    const bytes16 lower = {255, 255, 255, 255, 255, 255, 255, 255};
    const bytes16 both = (first & lower) | (second & ~lower);
    return (bytes16)((both & bit) != 0) & 16;
}

static void take_4_bits(const unsigned char *bytes, uint32_t at, struct block *out)
{
    memcpy(out->codes[0], bytes + at, 16);
}

static void take_5_bits(const unsigned char *bytes, uint32_t at, struct block *out)
{
    const bytes16 packed = load16(bytes + at + 4);
    store16((packed & 15) | fifth_bits(bytes + at), out->codes[0]);
    store16((down(packed, 4) & 15) | fifth_bits(bytes + at + 2), out->codes[0] + 16);
}

static void take_q8_0(const unsigned char *bytes, struct block *out)
{
    store16(load16(bytes + 2) ^ 128, out->codes[0]);
    store16(load16(bytes + 18) ^ 128, out->codes[0] + 16);
}

/* The 6-bit scales and minimums of Q4_K and Q5_K, as six_bit_scales of ops/numbers/dequant.c. */
static void take_six_bits(const unsigned char *packed, struct block *out)
{
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t a = packed[i], b = packed[i + 4], c = packed[i + 8];
        out->scale[i][0] = a & 63u;
        out->scale[i][1] = b & 63u;
        out->scale[i + 4][0] = (unsigned char)((c & 15u) | a >> 6 << 4);
        out->scale[i + 4][1] = (unsigned char)(c >> 4 | b >> 6 << 4);
    }
}

static void take_q4_k(const unsigned char *bytes, struct block *out)
{
    take_six_bits(bytes + 4, out);
    for (uint32_t pair = 0; pair < 4; pair++) {
        const bytes16 a = load16(bytes + 16 + pair * 32), b = load16(bytes + 32 + pair * 32);
        store16((a & 15) | up(b & 15, 4), out->codes[2 * pair]);
        store16((down(a, 4) & 15) | (b & 240), out->codes[2 * pair + 1]);
    }
}

static void take_q5_k(const unsigned char *bytes, struct block *out)
{
    take_six_bits(bytes + 4, out);
    for (uint32_t g = 0; g < GROUPS_EACH; g++)
        for (uint32_t i = 0; i < GROUP; i += 16) {
            const bytes16 low = down(load16(bytes + 48 + g / 2 * 32 + i), g % 2 * 4) & 15;
            const bytes16 fifth = up(down(load16(bytes + 16 + i), g) & 1, 4);
            store16(low | fifth, out->codes[g] + i);
        }
}

static void take_q6_k(const unsigned char *bytes, struct block *out)
{
    for (uint32_t part = 0; part < 4; part++) {
        const uint32_t half = part / 2, i = part % 2 * 16;
        const unsigned char *lows = bytes + half * 64 + i;
        const bytes16 a = load16(lows), b = load16(lows + 32);
        const bytes16 high = load16(bytes + 128 + half * 32 + i);
        group_codes *codes = out->codes + half * 4u;
        store16((a & 15) | up(high & 3, 4), codes[0] + i);
        store16((b & 15) | up(high & 12, 2), codes[1] + i);
        store16((down(a, 4) & 15) | (high & 48), codes[2] + i);
        store16((down(b, 4) & 15) | down(high & 192, 2), codes[3] + i);
    }
    memcpy(out->scale, bytes + 192, sizeof out->scale);
}

static void take_iq4_xs(const unsigned char *bytes, struct block *out)
{
    for (uint32_t g = 0; g < GROUPS_EACH; g++) {
        const uint32_t low = (uint32_t)bytes[4 + g / 2] >> g % 2 * 4 & 15u;
        const uint32_t high = (uint32_t)bytes[2 + g / 4] >> g % 4 * 2 & 3u;
        out->scale[g][0] = (unsigned char)((low | high << 4) - 32u);
        memcpy(out->codes[g], bytes + 8 + g * 16, 16);
    }
}

/* The scale of MXFP4 as bf16: 2^(e - 128), subnormal for e = 0 and 1. */
static void take_power(unsigned char e, struct block *out)
{
    const uint32_t bits = e < 2 ? 0x20u << e : (e - 1u) << 7;
    out->halves[0][0] = (unsigned char)bits;
    out->halves[0][1] = (unsigned char)(bits >> 8);
}

static void take_block(enum mr_quant_format format, const unsigned char *bytes, struct block *out)
{
    memcpy(out->halves, bytes + (format == MR_QUANT_Q6_K ? 208 : 0),
           format == MR_QUANT_Q6_K ? 2 : 4);
    switch (format) {
    case MR_QUANT_Q8_0:
        take_q8_0(bytes, out);
        break;
    case MR_QUANT_Q5_0:
        take_5_bits(bytes, 2, out);
        break;
    case MR_QUANT_Q5_1:
        take_5_bits(bytes, 4, out);
        break;
    case MR_QUANT_Q4_K:
        take_q4_k(bytes, out);
        break;
    case MR_QUANT_Q5_K:
        take_q5_k(bytes, out);
        break;
    case MR_QUANT_Q6_K:
        take_q6_k(bytes, out);
        break;
    case MR_QUANT_IQ4_XS:
        take_iq4_xs(bytes, out);
        break;
    case MR_QUANT_MXFP4:
        take_power(bytes[0], out);
        take_4_bits(bytes, 1, out);
        break;
    default: /* Q4_0, Q4_1, IQ4_NL */
        take_4_bits(bytes, format == MR_QUANT_Q4_1 ? 4 : 2, out);
    }
}

/* ---- from codes to panels ---- */

typedef uint32_t four_words __attribute__((vector_size(16)));

static four_words load_four(const unsigned char *from)
{
    four_words words;
    memcpy(&words, from, sizeof words);
    return words;
}

#define FIRST(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define LAST(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* Word i of 16 bytes of column c becomes word c of line i. */
static void put_lines(const unsigned char *const columns[COLUMNS], unsigned char *lines)
{
    for (uint32_t c = 0; c < COLUMNS; c += 4) {
        const four_words p = load_four(columns[c]), q = load_four(columns[c + 2]);
        const four_words r = load_four(columns[c + 1]), s = load_four(columns[c + 3]);
        const four_words pq = FIRST(p, q), pq_last = LAST(p, q);
        const four_words rs = FIRST(r, s), rs_last = LAST(r, s);
        const four_words out[4] = {FIRST(pq, rs), LAST(pq, rs), FIRST(pq_last, rs_last),
                                   LAST(pq_last, rs_last)};
        for (uint32_t i = 0; i < 4; i++)
            memcpy(lines + i * MR_QUANT_LINE + c * 4u, &out[i], sizeof out[i]);
    }
}

/* Returns the four words of `bytes`, each multiplied by its factor, in one word: their bits lie
 * side by side. factors: the one of each word twice, because no bit leaves its byte. */
static uint32_t side_by_side(bytes16 bytes, halves8 factors)
{
    const four_words words = (four_words)((halves8)bytes * factors);
    return words[0] | words[1] | words[2] | words[3];
}

/* Writes a column's bits of 32 codes above the fourth, one word to each line from `lines` on. */
static void put_high_bits(uint32_t bits, const unsigned char *codes, unsigned char *lines)
{
    const halves8 ones = {1, 1, 2, 2, 4, 4, 8, 8}, twos = {1, 1, 4, 4, 16, 16, 64, 64};
    const bytes16 first = down(load16(codes), 4), last = down(load16(codes + 16), 4);
    uint32_t words[2] = {0};
    if (bits == 5) {
        words[0] = side_by_side(first & 1, ones) | side_by_side(last & 1, ones << 4);
    } else {
        words[0] = side_by_side(first & 3, twos);
        words[1] = side_by_side(last & 3, twos);
    }
    for (uint32_t i = 0; i < bits - 4; i++)
        memcpy(lines + i * MR_QUANT_LINE, &words[i], sizeof words[i]);
}

/* Writes the lines of group g of all columns. */
static void put_group(uint32_t bits, struct block *const blocks, uint32_t g, unsigned char *lines)
{
    unsigned char packed[COLUMNS][16];
    const unsigned char *columns[COLUMNS], *second[COLUMNS];
    for (uint32_t c = 0; c < COLUMNS; c++) {
        const unsigned char *codes = blocks[c].codes[g];
        columns[c] = codes;
        second[c] = codes + 16;
        if (bits == 4 || bits == 8) continue;
        store16((load16(codes) & 15) | up(load16(codes + 16) & 15, 4), packed[c]);
        columns[c] = packed[c];
        put_high_bits(bits, codes, lines + 4 * MR_QUANT_LINE + c * 4u);
    }
    put_lines(columns, lines);
    if (bits == 8) put_lines(second, lines + 4 * MR_QUANT_LINE);
}

/* Writes the scales of group g of all columns, and with the first group those of the block. */
static void put_scales(const struct mr_quant_shape *shape, const struct block *blocks, uint32_t g,
                       unsigned char *scales, unsigned char *of_block)
{
    unsigned char *halves = shape->block_bytes > 0 ? of_block : scales;
    for (uint32_t c = 0; c < COLUMNS; c++) {
        if (shape->block_bytes > 0) {
            scales[c] = blocks[c].scale[g][0];
            if (shape->group_bytes == 2 * COLUMNS) scales[COLUMNS + c] = blocks[c].scale[g][1];
        }
        if (g > 0) continue;
        memcpy(halves + 2 * (size_t)c, blocks[c].halves[0], 2);
        if (shape->scales == MR_SCALES_HALF_LOW || shape->scales == MR_SCALES_BLOCK_LOW)
            memcpy(halves + 32 + 2 * (size_t)c, blocks[c].halves[1], 2);
    }
}

/* Fetches the next block of a row. The processor's own prefetchers follow fewer than 16 rows at
 * once: without this, loading a model takes a tenth longer (measured). */
static void prefetch_block(const unsigned char *block, size_t block_bytes)
{
    for (size_t at = 0; at < block_bytes; at += MR_QUANT_LINE)
        __builtin_prefetch(block + at);
}

void mr_quant_pack(enum mr_quant_format format, uint32_t in_size,
                   const unsigned char *const rows[MR_QUANT_COLUMNS], unsigned char *panel)
{
    static const unsigned char zeros[BLOCK_BYTES];
    const struct mr_quant_shape *shape = &mr_quant_shapes[format];
    const size_t block_bytes = mr_storage_block_bytes(storage_of(format));
    const uint32_t block_numbers = (uint32_t)mr_storage_block_numbers(storage_of(format));
    const uint32_t groups_each = block_numbers / GROUP;
    const struct mr_quant_parts parts = mr_quant_parts_of(shape, in_size / GROUP);
    struct block blocks[COLUMNS];
    MR_ASSERT(in_size % block_numbers == 0 && block_bytes <= BLOCK_BYTES);
    for (uint32_t i = 0; i < in_size / block_numbers; i++) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            const unsigned char *bytes = rows[c] ? rows[c] + i * block_bytes : zeros;
            prefetch_block(bytes + block_bytes, block_bytes);
            take_block(format, bytes, &blocks[c]);
        }
        for (uint32_t g = 0; g < groups_each; g++) {
            const size_t group = (size_t)i * groups_each + g;
            put_group(shape->bits, blocks, g, panel + group * mr_quant_group_lines(shape));
            put_scales(shape, blocks, g, panel + parts.scales + group * shape->group_bytes,
                       panel + parts.blocks + (size_t)i * shape->block_bytes);
        }
    }
}

/* ---- quantizing floats ---- */

static float largest(const float *x, uint32_t count)
{
    float top = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) return NAN;
        top = fmaxf(top, fabsf(x[i]));
    }
    return top;
}

/* Quantizes a group of one output: writes its two halves, and byte i of its codes to codes[i / 4 *
 * MR_QUANT_LINE + i % 4]. The scale is rounded up, so that 255 steps reach from the smallest to the
 * largest number. */
static void quantize_group(const float *x, uint32_t count, uint16_t halves[2], unsigned char *codes)
{
    float least = x[0], most = x[0];
    const bool finite = !isnan(largest(x, count));
    for (uint32_t i = 1; i < count && finite; i++) {
        least = fminf(least, x[i]);
        most = fmaxf(most, x[i]);
    }
    const float step = finite ? most / 255.0f - least / 255.0f : NAN;
    halves[0] = mr_half_of(step);
    if (mr_float_of_half(halves[0]) < step) halves[0]++;
    const float scale = mr_float_of_half(halves[0]);
    halves[1] = mr_half_of(finite ? least + 128.0f * scale : NAN);
    const float low = mr_float_of_half(halves[1]), inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (uint32_t i = 0; i < GROUP; i++) {
        const float code = i < count && finite ? rintf((x[i] - low) * inverse) : 0.0f;
        codes[i / 4 * MR_QUANT_LINE + i % 4] =
            (unsigned char)(fminf(127.0f, fmaxf(-128.0f, code)) + 128.0f);
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
        const float code = fminf(15.0f, fmaxf(0.0f, rintf(x[i] * inverse) + 8.0f));
        const float off = x[i] - d * (code - 8.0f);
        error += off * off;
        codes[i] = (unsigned char)code;
    }
    return error;
}

/* The code of the number of largest magnitude is -8, or less steep: the scales tried are this
 * number divided by -6.5 to -9. */
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

/* Sets the scales of the two halves of a group, and what is added to its numbers. */
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
