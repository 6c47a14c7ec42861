/* weights - random weights and rows in every format of ops/cpu_kernels/quant, and the comparison of
 * an instruction set with the scalar reference, bit for bit; for its tests. */
#ifndef MR_TESTS_UNIT_OPS_CPU_KERNELS_QUANT_WEIGHTS_H
#define MR_TESTS_UNIT_OPS_CPU_KERNELS_QUANT_WEIGHTS_H

#include "ops/cpu_kernels/quant/quant.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PANELS   5u
#define COLUMNS  (PANELS * MR_QUANT_COLUMNS)
#define ROWS_MAX 64u /* enough for panels of 4 bits to be unpacked */
#define ROWS_FEW 18u /* more than a tile of AMX has */

/* The storages that have a format. MR_STORAGE_F32 stands for INT8. */
static const enum mr_storage storages[] = {
    MR_STORAGE_F32,  MR_STORAGE_Q8_0,   MR_STORAGE_Q4_0,   MR_STORAGE_Q4_1,
    MR_STORAGE_Q5_0, MR_STORAGE_Q5_1,   MR_STORAGE_Q4_K,   MR_STORAGE_Q5_K,
    MR_STORAGE_Q6_K, MR_STORAGE_IQ4_NL, MR_STORAGE_IQ4_XS, MR_STORAGE_MXFP4,
};
#define STORAGES (sizeof storages / sizeof *storages)

struct weights {
    enum mr_quant_format format;
    uint32_t in_size;
    size_t panel_bytes;
    unsigned char *stored; /* [COLUMNS] rows of blocks, or of floats for INT8 */
    unsigned char *panels;
    float *numbers; /* [COLUMNS][in_size] from mr_dequant, or for INT8 from mr_quant_unpack */
};

static inline uint32_t random_bits(uint64_t *seed)
{
    float x = number_next(seed);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 3;
}

/* Halves of blocks are set to finite numbers of both signs. */
static inline void put_half(unsigned char *at, uint64_t *seed)
{
    const uint16_t half = (uint16_t)(0x1400u + random_bits(seed) % 0x1000u);
    memcpy(at, &half, sizeof half);
    if (random_bits(seed) % 2) at[1] |= 128;
}

static inline void fill_block(enum mr_storage storage, unsigned char *block, uint64_t *seed)
{
    const size_t bytes = mr_storage_block_bytes(storage);
    for (size_t i = 0; i < bytes; i++)
        block[i] = (unsigned char)random_bits(seed);
    if (storage == MR_STORAGE_MXFP4) {
        block[0] = (unsigned char)(110u + random_bits(seed) % 20u);
        return;
    }
    put_half(block + (storage == MR_STORAGE_Q6_K ? 208 : 0), seed);
    if (storage == MR_STORAGE_Q4_1 || storage == MR_STORAGE_Q5_1 || storage == MR_STORAGE_Q4_K ||
        storage == MR_STORAGE_Q5_K)
        put_half(block + 2, seed);
}

static inline struct weights weights_make(enum mr_storage storage, uint32_t in_size)
{
    uint64_t seed = 17 + (uint64_t)storage;
    const size_t numbers = mr_storage_block_numbers(storage);
    const size_t row_bytes = in_size / numbers * mr_storage_block_bytes(storage);
    struct weights w = {.format = mr_quant_format_of(storage), .in_size = in_size};
    if (storage == MR_STORAGE_F32) w.format = MR_QUANT_INT8;
    assert_int_not_equal(w.format, MR_QUANT_NONE);
    w.panel_bytes = mr_quant_panel_bytes(w.format, in_size);
    w.stored = malloc(COLUMNS * row_bytes);
    w.panels = aligned_alloc(64, PANELS * w.panel_bytes);
    w.numbers = malloc((size_t)COLUMNS * in_size * sizeof(float));
    for (size_t i = 0; i < COLUMNS * row_bytes / mr_storage_block_bytes(storage); i++)
        if (storage == MR_STORAGE_F32)
            ((float *)(void *)w.stored)[i] = number_next(&seed);
        else
            fill_block(storage, w.stored + i * mr_storage_block_bytes(storage), &seed);
    for (size_t panel = 0; panel < PANELS; panel++) {
        const unsigned char *rows[MR_QUANT_COLUMNS];
        unsigned char *to = w.panels + panel * w.panel_bytes;
        for (size_t i = 0; i < MR_QUANT_COLUMNS; i++)
            rows[i] = w.stored + (panel * MR_QUANT_COLUMNS + i) * row_bytes;
        if (storage == MR_STORAGE_F32)
            mr_quant_pack_int8(in_size, (const float *)(const void *)rows[0], to);
        else
            mr_quant_pack(w.format, in_size, rows, to);
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        float *to = w.numbers + c * in_size;
        mr_quant_unpack(w.format, in_size, w.panels + c / MR_QUANT_COLUMNS * w.panel_bytes,
                        c % MR_QUANT_COLUMNS, to);
        if (storage == MR_STORAGE_F32) continue;
        float *expected = malloc(in_size * sizeof(float));
        mr_dequant(storage, w.stored + c * row_bytes, in_size, expected);
        for (uint32_t i = 0; i < in_size; i++)
            if (!(to[i] == expected[i]))
                fail_msg("%s: number %u of column %zu is %g, not %g", mr_storage_name(storage), i,
                         c, (double)to[i], (double)expected[i]);
        free(expected);
    }
    return w;
}

static inline void weights_drop(struct weights *w)
{
    free(w->stored);
    free(w->panels);
    free(w->numbers);
}

/* Quantizes rows of random numbers of different magnitudes. */
static inline unsigned char *rows_make(const struct mr_quant_ops *ops, uint32_t in_size, bool bf16)
{
    uint64_t seed = 5;
    const size_t stride = mr_quant_row_bytes(in_size);
    unsigned char *out = calloc(ROWS_MAX, stride);
    void *x = malloc(in_size * sizeof(float));
    for (uint32_t row = 0; row < ROWS_MAX; row++) {
        for (uint32_t i = 0; i < in_size; i++)
            number_set(x, i, number_next(&seed) * ldexpf(1.0f, (int)row - 4), bf16);
        if (row == 3) memset(x, 0, in_size * (bf16 ? 2u : 4u));
        ops->row(x, in_size, bf16, out + row * stride);
    }
    free(x);
    return out;
}

static inline const struct mr_quant_group *groups_of(const unsigned char *row, uint32_t in_size)
{
    return (const struct mr_quant_group *)(const void *)(row +
                                                         (size_t)mr_quant_group_count(in_size) *
                                                             MR_QUANT_GROUP);
}

static inline double exact(const struct weights *w, const unsigned char *row, uint32_t column)
{
    double sum = 0;
    for (uint32_t i = 0; i < w->in_size; i++)
        sum += (double)groups_of(row, w->in_size)[i / MR_QUANT_GROUP].scale[i / 16 % 2] *
               (double)(signed char)row[i] * (double)w->numbers[(size_t)column * w->in_size + i];
    return sum;
}

static inline void run(const struct mr_quant_ops *ops, const struct weights *w,
                       const unsigned char *x, uint32_t rows, float *c)
{
    const struct mr_quant_tile tile = {.format = w->format,
                                       .x = x,
                                       .x_stride = mr_quant_row_bytes(w->in_size),
                                       .b = w->panels,
                                       .panel_bytes = w->panel_bytes,
                                       .c = c,
                                       .c_stride = COLUMNS,
                                       .rows = rows,
                                       .panels = PANELS,
                                       .group_count = mr_quant_group_count(w->in_size)};
    ops->tile(&tile);
}

/* Checks that the rows and the products of an instruction set have the bits of the scalar ones. */
static inline void check_bits(const struct mr_quant_ops *ops)
{
    for (size_t i = 0; i < STORAGES; i++) {
        const bool blocks = mr_storage_block_numbers(storages[i]) == 256;
        struct weights w = weights_make(storages[i], blocks ? 768 : 800);
        unsigned char *x = rows_make(&mr_quant_ops_scalar, w.in_size, true);
        const size_t size = ROWS_MAX * COLUMNS * sizeof(float);
        float *expected = malloc(size), *got = malloc(size);
        run(&mr_quant_ops_scalar, &w, x, ROWS_MAX, expected);
        for (uint32_t rows = 1; rows <= ROWS_MAX; rows = rows == ROWS_FEW ? ROWS_MAX : rows + 1) {
            memset(got, 255, size);
            run(ops, &w, x, rows, got);
            assert_memory_equal(got, expected, rows * COLUMNS * sizeof(float));
        }
        free(expected);
        free(got);
        free(x);
        weights_drop(&w);
    }
    for (uint32_t in_size = 1; in_size < 70; in_size++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            unsigned char *expected = rows_make(&mr_quant_ops_scalar, in_size, bf16);
            unsigned char *got = rows_make(ops, in_size, bf16);
            assert_memory_equal(got, expected, ROWS_MAX * mr_quant_row_bytes(in_size));
            free(expected);
            free(got);
        }
}

#endif
