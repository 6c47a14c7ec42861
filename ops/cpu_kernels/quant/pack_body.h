/* pack_body - packs stored blocks of 16 rows into a panel (quant.h): the same words of several rows
 * are moved side by side into a vector, and then all rows are rearranged with the same operations.
 *
 * Needs, defined before it is included: VECTOR_BYTES, the size of a vector, in which each word
 * belongs to one row: 16 (4 rows) or 64 (all 16 rows); and PACK, the name of the function to
 * define. */
#include "codec/check.h"
#include "ops/cpu_kernels/quant/quant.h"

#include <string.h>

#define ROWS            MR_QUANT_COLUMNS
#define LINE            MR_QUANT_LINE
#define PART            (VECTOR_BYTES / 4) /* rows in a vector */
#define BLOCK_BYTES_MAX 256u               /* no stored block is larger */

typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef unsigned char row_bytes __attribute__((vector_size(PART)));
typedef uint16_t row_halves __attribute__((vector_size(PART * 2)));
typedef uint32_t four_words __attribute__((vector_size(16)));

#define EACH(byte) ((byte)*0x01010101u) /* a word of four equal bytes */

/* ---- words of several rows ---- */

static inline four_words load_four(const unsigned char *bytes)
{
    four_words value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

#if VECTOR_BYTES == 16
static inline words load_rows(const unsigned char *const rows[ROWS], size_t first, size_t at)
{
    return load_four(rows[first] + at);
}
#define FIRST(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define LAST(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
typedef uint32_t eight_words __attribute__((vector_size(32)));
/* Four words each of the rows first, first + 4, first + 8 and first + 12. */
static inline words load_rows(const unsigned char *const rows[ROWS], size_t first, size_t at)
{
    const four_words a = load_four(rows[first] + at), b = load_four(rows[first + 4] + at);
    const four_words c = load_four(rows[first + 8] + at), d = load_four(rows[first + 12] + at);
    const eight_words ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
    const eight_words cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#define FIRST(a, b)                                                                                \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define LAST(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#endif

/* out[i] = word i of the 16 bytes at `at`, of PART rows. */
static inline void load(const unsigned char *const rows[ROWS], size_t at, words out[4])
{
    const words p = load_rows(rows, 0, at), q = load_rows(rows, 2, at);
    const words r = load_rows(rows, 1, at), s = load_rows(rows, 3, at);
    const words pq = FIRST(p, q), pq_last = LAST(p, q), rs = FIRST(r, s), rs_last = LAST(r, s);
    out[0] = FIRST(pq, rs);
    out[1] = LAST(pq, rs);
    out[2] = FIRST(pq_last, rs_last);
    out[3] = LAST(pq_last, rs_last);
}

static inline void put_word(words value, unsigned char *line)
{
    memcpy(line, &value, sizeof value);
}

/* ---- codes ---- */

/* A block of PART rows to pack, and its place in the panel. */
struct block {
    const unsigned char *const *rows; /* their stored blocks */
    unsigned char *lines, *scales, *of_block;
    uint32_t row; /* the first of them; the scales of one kind of all rows are adjacent */
    uint32_t line_bytes, scale_bytes; /* from group to group */
};

static inline unsigned char *line_of(const struct block *block, uint32_t g, uint32_t i)
{
    return block->lines + (size_t)g * block->line_bytes + (size_t)i * LINE;
}

/* 16 bytes whose order in the file is that of a panel. */
static inline void pack_plain(const struct block *block, uint32_t g, size_t at)
{
    words w[4];
    load(block->rows, at, w);
    for (uint32_t i = 0; i < 4; i++)
        put_word(w[i], line_of(block, g, i));
}

static inline void pack_q8_0(const struct block *block)
{
    for (uint32_t half = 0; half < 2; half++) {
        words w[4];
        load(block->rows, 2 + half * 16, w);
        for (uint32_t i = 0; i < 4; i++)
            put_word(w[i] ^ EACH(128), line_of(block, 0, half * 4 + i));
    }
}

/* Packs 4 bits of 32 bytes each, at `at`: the low halves are the codes of group g, the high halves
 * those of group g + apart. */
static inline void pack_halves(const struct block *block, uint32_t g, uint32_t apart, size_t at)
{
    words a[4], b[4];
    load(block->rows, at, a);
    load(block->rows, at + 16, b);
    for (uint32_t i = 0; i < 4; i++) {
        put_word((a[i] & EACH(15u)) | (b[i] & EACH(15u)) << 4, line_of(block, g, i));
        put_word((a[i] >> 4 & EACH(15u)) | (b[i] & EACH(240u)), line_of(block, g + apart, i));
    }
}

/* The fifth bits of 32 codes, one after the other in a word: bit 4j + i goes to bit j of byte i. */
static inline words fifth_bits(words bits)
{
    words out = {0};
    for (uint32_t j = 0; j < 8; j++) {
        const words four = bits >> 4 * j & 15;
        out |= ((four | four << 7 | four << 14 | four << 21) & EACH(1u)) << j;
    }
    return out;
}

static inline void pack_5_bits(const struct block *block, size_t at)
{
    words bits[4];
    load(block->rows, at, bits);
    put_word(fifth_bits(bits[0]), line_of(block, 0, 4));
    pack_plain(block, 0, at + 4);
}

/* ---- scales ---- */

/* Writes the lowest byte of each word; put_halves writes the lower half. `all` has room for 16
 * rows. */
static inline void put_bytes(const struct block *block, words value, unsigned char *all)
{
    const row_bytes bytes = __builtin_convertvector(value, row_bytes);
    memcpy(all + block->row, &bytes, sizeof bytes);
}

static inline void put_halves(const struct block *block, words value, unsigned char *all)
{
    const row_halves halves = __builtin_convertvector(value, row_halves);
    memcpy(all + 2 * (size_t)block->row, &halves, sizeof halves);
}

/* The 6-bit scales and minimums of Q4_K and Q5_K, as in six_bit_scales of ops/numbers/dequant.c. */
static inline void pack_six_bits(const struct block *block)
{
    words w[4];
    load(block->rows, 0, w);
    put_halves(block, w[0], block->of_block);
    put_halves(block, w[0] >> 16, block->of_block + 2 * (size_t)ROWS);
    const words scales[2] = {w[1] & EACH(63u), (w[3] & EACH(15u)) | (w[1] >> 2 & EACH(48u))};
    const words minimums[2] = {w[2] & EACH(63u), (w[3] >> 4 & EACH(15u)) | (w[2] >> 2 & EACH(48u))};
    for (uint32_t g = 0; g < MR_QUANT_GROUPS_EACH; g++) {
        unsigned char *out = block->scales + (size_t)g * block->scale_bytes;
        put_bytes(block, scales[g / 4] >> g % 4 * 8, out);
        put_bytes(block, minimums[g / 4] >> g % 4 * 8, out + ROWS);
    }
}

/* Packs the halves at the start of a block: a scale, and in some formats a number that is added. */
static inline void pack_scale(const struct block *block)
{
    words w[4];
    load(block->rows, 0, w);
    put_halves(block, w[0], block->scales);
    if (block->scale_bytes > 2 * ROWS)
        put_halves(block, w[0] >> 16, block->scales + 2 * (size_t)ROWS);
}

/* The scale of MXFP4 as bf16: 2^(e - 128), subnormal for e = 0 and 1. */
static inline void pack_power(const struct block *block)
{
    words w[4];
    load(block->rows, 0, w);
    const words e = w[0] & 255, small = (words)(e < 2);
    put_halves(block, (small & 0x20u << (e & 1)) | (~small & (e - 1) << 7), block->scales);
}

/* ---- blocks of 256 ---- */

static inline void pack_q4_k(const struct block *block)
{
    pack_six_bits(block);
    for (uint32_t pair = 0; pair < 4; pair++)
        pack_halves(block, 2 * pair, 1, 16 + pair * 32);
}

static inline void pack_q5_k(const struct block *block)
{
    words w[8];
    pack_six_bits(block);
    for (uint32_t pair = 0; pair < 4; pair++)
        pack_halves(block, 2 * pair, 1, 48 + pair * 32);
    load(block->rows, 16, w);
    load(block->rows, 32, w + 4);
    for (uint32_t g = 0; g < MR_QUANT_GROUPS_EACH; g++) {
        words out = {0};
        for (uint32_t j = 0; j < 8; j++)
            out |= (w[j] >> g & EACH(1u)) << j;
        put_word(out, line_of(block, g, 4));
    }
}

static inline void pack_q6_k(const struct block *block)
{
    words w[8];
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < 2; i++)
            pack_halves(block, half * 4 + i, 2, half * 64 + i * 32);
        load(block->rows, 128 + half * 32, w);
        load(block->rows, 144 + half * 32, w + 4);
        for (uint32_t g = 0; g < 4; g++)
            for (uint32_t i = 0; i < 2; i++) {
                words out = {0};
                for (uint32_t j = 0; j < 4; j++)
                    out |= (w[i * 4 + j] >> 2 * g & EACH(3u)) << 2 * j;
                put_word(out, line_of(block, half * 4 + g, 4 + i));
            }
    }
    load(block->rows, 192, w);
    for (uint32_t g = 0; g < MR_QUANT_GROUPS_EACH; g++) {
        unsigned char *out = block->scales + (size_t)g * block->scale_bytes;
        put_bytes(block, w[g / 2] >> g % 2 * 16, out);
        put_bytes(block, w[g / 2] >> (g % 2 * 16 + 8), out + ROWS);
    }
    load(block->rows, 194, w);
    put_halves(block, w[3] >> 16, block->of_block);
}

static inline void pack_iq4_xs(const struct block *block)
{
    words w[4];
    load(block->rows, 0, w);
    put_halves(block, w[0], block->of_block);
    for (uint32_t g = 0; g < MR_QUANT_GROUPS_EACH; g++) {
        const words low = w[1] >> 4 * g & 15, high = w[0] >> (16 + 2 * g) & 3;
        put_bytes(block, (low | high << 4) - 32, block->scales + (size_t)g * block->scale_bytes);
        pack_plain(block, g, 8 + g * 16);
    }
}

static inline void pack_block(enum mr_quant_format format, const struct block *block)
{
    switch (format) {
    case MR_QUANT_Q4_K:
        pack_q4_k(block);
        return;
    case MR_QUANT_Q5_K:
        pack_q5_k(block);
        return;
    case MR_QUANT_Q6_K:
        pack_q6_k(block);
        return;
    case MR_QUANT_IQ4_XS:
        pack_iq4_xs(block);
        return;
    case MR_QUANT_MXFP4:
        pack_power(block);
        pack_plain(block, 0, 1);
        return;
    case MR_QUANT_Q8_0:
        pack_q8_0(block);
        break;
    case MR_QUANT_Q5_0:
        pack_5_bits(block, 2);
        break;
    case MR_QUANT_Q5_1:
        pack_5_bits(block, 4);
        break;
    default: /* Q4_0, Q4_1, IQ4_NL */
        pack_plain(block, 0, format == MR_QUANT_Q4_1 ? 4 : 2);
    }
    pack_scale(block);
}

/* ---- panels ---- */

/* Fetches the next block of a row. The processor's own prefetchers follow fewer than 16 rows at
 * once: without this, loading a model takes a tenth longer (measured). */
static inline void prefetch_block(const unsigned char *block, size_t block_bytes)
{
    for (size_t at = 0; at < block_bytes; at += LINE)
        __builtin_prefetch(block + at);
}

void PACK(enum mr_quant_format format, uint32_t in_size,
          const unsigned char *const rows[MR_QUANT_COLUMNS], unsigned char *panel)
{
    static const unsigned char zeros[BLOCK_BYTES_MAX];
    const struct mr_quant_shape *shape = &mr_quant_shapes[format];
    const enum mr_storage storage = mr_quant_storage_of(format);
    const size_t block_bytes = mr_storage_block_bytes(storage);
    const uint32_t block_numbers = (uint32_t)mr_storage_block_numbers(storage);
    const struct mr_quant_parts parts = mr_quant_parts_of(shape, in_size / MR_QUANT_GROUP);
    const unsigned char *blocks[ROWS];
    MR_ASSERT(in_size % block_numbers == 0 && block_bytes <= BLOCK_BYTES_MAX);
    for (uint32_t i = 0; i < in_size / block_numbers; i++) {
        const size_t group = (size_t)i * (block_numbers / MR_QUANT_GROUP);
        for (uint32_t row = 0; row < ROWS; row++) {
            blocks[row] = rows[row] ? rows[row] + i * block_bytes : zeros;
            if (rows[row]) prefetch_block(blocks[row] + block_bytes, block_bytes);
        }
        for (uint32_t row = 0; row < ROWS; row += PART) {
            const struct block block = {
                .rows = blocks + row,
                .lines = panel + group * mr_quant_group_lines(shape) + row * 4u,
                .scales = panel + parts.scales + group * shape->group_bytes,
                .of_block = panel + parts.blocks + (size_t)i * shape->block_bytes,
                .row = row,
                .line_bytes = mr_quant_group_lines(shape),
                .scale_bytes = shape->group_bytes};
            pack_block(format, &block);
        }
    }
}
