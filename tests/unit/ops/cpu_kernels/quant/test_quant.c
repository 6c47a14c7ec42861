/* Checks that the scalar product is the product of the quantized rows and the weights, and that
 * every other instruction set gives the same bits. */
#include "ops/cpu_kernels/level.h"
#include "tests/unit/ops/cpu_kernels/quant/weights.h"
#include "tests/unit/ops/levels.h"

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

static void every_level_gives_the_bits_of_scalar(void **state)
{
    (void)state;
    EACH_LEVEL (level)
        check_bits(mr_cpu_ops_get(level)->quant);
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

/* A number that is not finite makes its group NaN on every level, and so the outputs. */
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
            else /* half a step, and the part of a step that rounding to half precision adds at the
                    ends */
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
