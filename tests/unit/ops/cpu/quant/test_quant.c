/* Checks that packing keeps the numbers of every format, that the scalar product is the product of
 * the quantized rows and the weights, and that every other instruction set gives the same bits. */
#include "ops/cpu/level.h"
#include "ops/cpu/quant/quant.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define PANELS   5u
#define COLUMNS  (PANELS * MR_QUANT_COLUMNS)
#define ROWS_MAX 13u

/* The storages that have a format. INT8 stands for itself: MR_STORAGE_F32. */
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
    float *numbers; /* [COLUMNS][in_size] what mr_dequant gives, or mr_quant_unpack for INT8 */
};

static uint32_t random_bits(uint64_t *seed)
{
    float x = number_next(seed);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 3;
}

/* Halves of blocks are set to finite numbers of both signs. */
static void put_half(unsigned char *at, uint64_t *seed)
{
    const uint16_t half = (uint16_t)(0x1400u + random_bits(seed) % 0x1000u);
    memcpy(at, &half, sizeof half);
    if (random_bits(seed) % 2) at[1] |= 128;
}

static void fill_block(enum mr_storage storage, unsigned char *block, uint64_t *seed)
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

static struct weights weights_make(enum mr_storage storage, uint32_t in_size)
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

static void weights_drop(struct weights *w)
{
    free(w->stored);
    free(w->panels);
    free(w->numbers);
}

/* Quantizes rows of random numbers, of which each has another magnitude. */
static unsigned char *rows_make(const struct mr_quant_ops *ops, uint32_t in_size, bool bf16)
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

static const struct mr_quant_group *groups_of(const unsigned char *row, uint32_t in_size)
{
    return (const struct mr_quant_group *)(const void *)(row +
                                                         (size_t)mr_quant_group_count(in_size) *
                                                             MR_QUANT_GROUP);
}

static double exact(const struct weights *w, const unsigned char *row, uint32_t column)
{
    double sum = 0;
    for (uint32_t i = 0; i < w->in_size; i++)
        sum += (double)groups_of(row, w->in_size)[i / MR_QUANT_GROUP].scale[i / 16 % 2] *
               (double)(signed char)row[i] * (double)w->numbers[(size_t)column * w->in_size + i];
    return sum;
}

static void run(const struct mr_quant_ops *ops, const struct weights *w, const unsigned char *x,
                uint32_t rows, float *c)
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

static void scalar_is_the_product_of_the_stored_numbers(void **state)
{
    (void)state;
    const struct mr_quant_ops *ops = &mr_quant_ops_scalar;
    for (size_t i = 0; i < STORAGES; i++) {
        struct weights w = weights_make(storages[i], 512);
        unsigned char *x = rows_make(ops, w.in_size, false);
        float *c = malloc(ROWS_MAX * COLUMNS * sizeof *c);
        run(ops, &w, x, ROWS_MAX, c);
        for (uint32_t row = 0; row < ROWS_MAX; row++)
            for (uint32_t column = 0; column < COLUMNS; column++) {
                const double got = (double)c[row * COLUMNS + column];
                const double want = exact(&w, x + row * mr_quant_row_bytes(w.in_size), column);
                double size = 0;
                for (uint32_t k = 0; k < w.in_size; k++)
                    size += fabs((double)w.numbers[column * w.in_size + k]);
                if (!(fabs(got - want) <= 1e-6 * size * ldexp(1.0, (int)row - 4)))
                    fail_msg("%s [%u, %u]: %g, want %g", mr_storage_name(storages[i]), row, column,
                             got, want);
            }
        free(c);
        free(x);
        weights_drop(&w);
    }
}

static void check_level(enum mr_cpu_level level)
{
    const struct mr_quant_ops *ops = mr_cpu_ops_get(level)->quant;
    for (size_t i = 0; i < STORAGES; i++) {
        struct weights w = weights_make(storages[i], 768);
        unsigned char *x = rows_make(&mr_quant_ops_scalar, w.in_size, true);
        const size_t size = ROWS_MAX * COLUMNS * sizeof(float);
        float *expected = malloc(size), *got = malloc(size);
        run(&mr_quant_ops_scalar, &w, x, ROWS_MAX, expected);
        for (uint32_t rows = 1; rows <= ROWS_MAX; rows++) {
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

static void every_level_gives_the_bits_of_scalar(void **state)
{
    (void)state;
    EACH_LEVEL (level)
        check_level(level);
}

/* The largest codes and bytes of both signs: no intermediate sum may saturate. */
static void extremes_do_not_saturate(void **state)
{
    (void)state;
    const uint32_t in_size = 256;
    for (size_t i = 1; i < STORAGES; i++)
        for (unsigned fill = 0; fill < 256; fill += 51) {
            struct weights w = weights_make(storages[i], in_size);
            const size_t block = mr_storage_block_bytes(storages[i]);
            const size_t row_bytes = in_size / mr_storage_block_numbers(storages[i]) * block;
            unsigned char *row = calloc(1, row_bytes);
            const unsigned char *rows[MR_QUANT_COLUMNS];
            for (size_t b = 0; b < row_bytes; b += block) {
                memset(row + b, (int)fill, block);
                memcpy(row + b, (const uint16_t[]){0x3c00, 0x3c00}, 4);
                if (storages[i] == MR_STORAGE_Q6_K)
                    memcpy(row + b + 208, (const uint16_t[]){0x3c00}, 2);
                if (storages[i] == MR_STORAGE_Q8_0 || storages[i] == MR_STORAGE_Q4_0)
                    memset(row + b + 2, (int)fill, block - 2);
            }
            for (size_t c = 0; c < MR_QUANT_COLUMNS; c++)
                rows[c] = row;
            for (size_t panel = 0; panel < PANELS; panel++)
                mr_quant_pack(w.format, in_size, rows, w.panels + panel * w.panel_bytes);
            float x[256], expected[COLUMNS], got[COLUMNS];
            for (int sign = -1; sign <= 1; sign += 2) {
                for (uint32_t k = 0; k < in_size; k++)
                    x[k] = (float)sign;
                unsigned char *quantized = calloc(1, mr_quant_row_bytes(in_size));
                mr_quant_ops_scalar.row(x, in_size, false, quantized);
                run(&mr_quant_ops_scalar, &w, quantized, 1, expected);
                EACH_LEVEL (level) {
                    run(mr_cpu_ops_get(level)->quant, &w, quantized, 1, got);
                    assert_memory_equal(got, expected, sizeof got);
                }
                free(quantized);
            }
            free(row);
            weights_drop(&w);
        }
}

static void a_row_keeps_its_numbers_within_half_a_step(void **state)
{
    (void)state;
    uint64_t seed = 3;
    float x[100];
    unsigned char *row = calloc(1, mr_quant_row_bytes(100));
    for (int i = 0; i < 100; i++)
        x[i] = number_next(&seed);
    mr_quant_ops_scalar.row(x, 100, false, row);
    for (uint32_t i = 0; i < 100; i++) {
        const float scale = groups_of(row, 100)[i / MR_QUANT_GROUP].scale[i / 16 % 2];
        assert_true(fabsf(scale * (float)(signed char)row[i] - x[i]) <= scale * 0.5001f);
    }
    const struct mr_quant_group *group = groups_of(row, 100);
    int sums[2] = {0};
    for (int i = 0; i < 32; i++)
        sums[i / 16] += (signed char)row[i];
    assert_int_equal(group->minus[0], -sums[0]);
    assert_int_equal(group->minus[1], -sums[1]);
    assert_true(group->scaled_sum ==
                group->scale[0] * (float)sums[0] + group->scale[1] * (float)sums[1]);
    for (int i = 100; i < 128; i++)
        assert_int_equal(row[i], 0);
    free(row);
}

/* A number that is not finite makes the group NaN on every level, so that the outputs are NaN. */
static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    struct weights w = weights_make(MR_STORAGE_Q4_0, 256);
    EACH_LEVEL (level)
        for (int kind = 0; kind < 3; kind++) {
            const struct mr_quant_ops *ops = mr_cpu_ops_get(level)->quant;
            float x[256] = {0.5f}, c[COLUMNS];
            unsigned char *row = calloc(1, mr_quant_row_bytes(256));
            x[70] = kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
            ops->row(x, 256, false, row);
            assert_true(isnan(groups_of(row, 256)[2].scale[0]));
            assert_true(groups_of(row, 256)[0].scale[0] > 0.0f);
            run(ops, &w, row, 1, c);
            for (uint32_t i = 0; i < COLUMNS; i++)
                assert_true(isnan(c[i]));
            free(row);
        }
    weights_drop(&w);
}

/* ---- quantizing floats ---- */

static void int8_keeps_weights_within_half_a_step(void **state)
{
    (void)state;
    uint64_t seed = 11;
    const uint32_t in_size = 70;
    float *rows = malloc(MR_QUANT_COLUMNS * in_size * sizeof *rows), back[70];
    unsigned char *panel = aligned_alloc(64, mr_quant_panel_bytes(MR_QUANT_INT8, in_size));
    for (uint32_t i = 0; i < MR_QUANT_COLUMNS * in_size; i++)
        rows[i] = number_next(&seed) * (i / in_size == 4 ? 1e-20f : 1.0f);
    rows[9 * in_size + 3] = INFINITY;
    mr_quant_pack_int8(in_size, rows, panel);
    for (uint32_t c = 0; c < MR_QUANT_COLUMNS; c++) {
        mr_quant_unpack(MR_QUANT_INT8, in_size, panel, c, back);
        for (uint32_t i = 0; i < in_size; i++) {
            const uint32_t group = i / 32 * 32, end = group + 32 < in_size ? group + 32 : in_size;
            float least = INFINITY, most = -INFINITY;
            for (uint32_t k = group; k < end; k++) {
                least = fminf(least, rows[c * in_size + k]);
                most = fmaxf(most, rows[c * in_size + k]);
            }
            if (c == 9 && group == 0)
                assert_true(isnan(back[i]));
            else /* half a step, a part of it that rounding to halves adds at the ends */
                assert_true(fabsf(back[i] - rows[c * in_size + i]) <=
                            (most - least) * (0.51f / 255.0f + 0x1p-12f) + 0x1p-24f);
        }
    }
    free(panel);
    free(rows);
}

static void q4_0_keeps_weights_within_a_step(void **state)
{
    (void)state;
    uint64_t seed = 12;
    float row[70] = {0}, back[96];
    unsigned char blocks[3 * 18];
    for (int i = 0; i < 40; i++)
        row[i] = number_next(&seed);
    mr_quant_to_q4_0(70, row, blocks);
    mr_dequant(MR_STORAGE_Q4_0, blocks, 96, back);
    for (int i = 0; i < 70; i++)
        assert_true(fabsf(back[i] - row[i]) <= 1.0f / 7.0f);
    for (int i = 64; i < 96; i++)
        assert_true(back[i] == 0.0f);
    row[33] = NAN;
    mr_quant_to_q4_0(70, row, blocks);
    mr_dequant(MR_STORAGE_Q4_0, blocks, 96, back);
    assert_true(isnan(back[32]) && isnan(back[63]) && !isnan(back[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_is_the_product_of_the_stored_numbers),
        cmocka_unit_test(every_level_gives_the_bits_of_scalar),
        cmocka_unit_test(extremes_do_not_saturate),
        cmocka_unit_test(a_row_keeps_its_numbers_within_half_a_step),
        cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(int8_keeps_weights_within_half_a_step),
        cmocka_unit_test(q4_0_keeps_weights_within_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
