/* Compares the integer products for AVX-VNNI and AMX with the scalar ones, bit for bit. This
 * program compiles them with these instructions in plain C
 * (tests/unit/ops/cpu_kernels/quant/emulated). For their other instructions the machine needs AVX2
 * (AVX-VNNI) or AVX-512 VNNI (AMX). */
#include "ops/cpu_kernels/kernels.h"
#include "tests/unit/ops/cpu_kernels/quant/weights.h"

#ifdef __x86_64__
#include "tests/unit/ops/cpu_kernels/quant/emulated/immintrin.h"

/* ---- the instructions ---- */

static uint64_t dots, tile_dots; /* executed */

void emulated_dpbusd(int *sum, const unsigned char *codes, const signed char *x)
{
    dots++;
    for (int i = 0; i < 32; i++)
        sum[i / 4] += codes[i] * x[i];
}

struct tile {
    uint8_t rows;
    uint16_t row_bytes;
    unsigned char bytes[16][64];
};
static struct tile tiles[8];

static struct tile *configured(int index)
{
    assert_true(index >= 0 && index < 8);
    assert_true(tiles[index].rows > 0 && tiles[index].row_bytes > 0);
    return &tiles[index];
}

void emulated_tile_config(const void *config)
{
    const unsigned char *bytes = config;
    assert_int_equal(bytes[0], 1); /* palette */
    for (int i = 1; i < 16; i++)
        assert_int_equal(bytes[i], 0);
    for (int i = 0; i < 8; i++) {
        tiles[i].rows = bytes[48 + i];
        memcpy(&tiles[i].row_bytes, bytes + 16 + 2 * i, 2);
        assert_true(tiles[i].rows <= 16 && tiles[i].row_bytes <= 64);
        memset(tiles[i].bytes, 0, sizeof tiles[i].bytes);
    }
}

void emulated_tile_release(void)
{
    memset(tiles, 0, sizeof tiles);
}

void emulated_tile_zero(int tile)
{
    memset(configured(tile)->bytes, 0, sizeof tiles[0].bytes);
}

void emulated_tile_load(int tile, const void *from, size_t stride)
{
    struct tile *to = configured(tile);
    memset(to->bytes, 0, sizeof to->bytes);
    for (size_t row = 0; row < to->rows; row++)
        memcpy(to->bytes[row], (const unsigned char *)from + row * stride, to->row_bytes);
}

void emulated_tile_store(int tile, void *to, size_t stride)
{
    const struct tile *from = configured(tile);
    for (size_t row = 0; row < from->rows; row++)
        memcpy((unsigned char *)to + row * stride, from->bytes[row], from->row_bytes);
}

void emulated_tile_dpbsud(int sum, int a, int b)
{
    struct tile *to = configured(sum);
    const struct tile *left = configured(a), *right = configured(b);
    assert_true(sum != a && sum != b && a != b);
    assert_true(to->rows == left->rows && to->row_bytes == right->row_bytes);
    assert_true(left->row_bytes == right->rows * 4 && to->row_bytes % 4 == 0);
    tile_dots++;
    for (int m = 0; m < to->rows; m++)
        for (int n = 0; n < to->row_bytes / 4; n++) {
            int32_t total;
            memcpy(&total, to->bytes[m] + 4 * n, sizeof total);
            for (int k = 0; k < left->row_bytes; k++)
                total += (signed char)left->bytes[m][k] * right->bytes[k / 4][4 * n + k % 4];
            memcpy(to->bytes[m] + 4 * n, &total, sizeof total);
        }
}

/* ---- tests ---- */

static void avx_vnni_gives_the_bits_of_scalar(void **state)
{
    (void)state;
    if (mr_cpu_level(MR_CPU_AVX2) != MR_CPU_AVX2) return;
    check_bits(&mr_quant_ops_avxvnni);
    assert_true(dots > 0);
}

static void amx_gives_the_bits_of_scalar(void **state)
{
    (void)state;
    if (mr_cpu_level(MR_CPU_AVX512_VNNI) != MR_CPU_AVX512_VNNI) return;
    check_bits(&mr_quant_ops_amx);
    assert_true(tile_dots > 0);
}

/* The comparison above would miss an error that emulator and scalar code share; this test checks
 * one product of each kind by hand. */
static void the_emulated_instructions_multiply(void **state)
{
    (void)state;
    int sum[8] = {100};
    unsigned char codes[32] = {255, 1, 2, 3};
    signed char x[32] = {-127, 10, -10, 100};
    emulated_dpbusd(sum, codes, x);
    assert_int_equal(sum[0], 100 - 255 * 127 + 10 - 20 + 300);
    assert_int_equal(sum[1], 0);
    unsigned char config[64] = {1};
    const uint16_t row_bytes[3] = {8, 4, 8};
    memcpy(config + 16, row_bytes, sizeof row_bytes);
    config[48] = config[49] = 2; /* sums and x: two rows; codes: one row of two columns */
    config[50] = 1;
    int32_t sums[2][2] = {{7, 0}, {0, 0}};
    const signed char rows[2][4] = {{1, 2, 3, -4}, {-128, 0, 0, 0}};
    const unsigned char columns[8] = {200, 1, 1, 1, 255, 0, 0, 0};
    emulated_tile_config(config);
    emulated_tile_load(0, sums, 8);
    emulated_tile_load(1, rows, 4);
    emulated_tile_load(2, columns, 8);
    emulated_tile_dpbsud(0, 1, 2);
    emulated_tile_store(0, sums, 8);
    assert_int_equal(sums[0][0], 7 + 200 + 2 + 3 - 4);
    assert_int_equal(sums[0][1], 255);
    assert_int_equal(sums[1][0], -128 * 200);
    assert_int_equal(sums[1][1], -128 * 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx_vnni_gives_the_bits_of_scalar),
        cmocka_unit_test(amx_gives_the_bits_of_scalar),
        cmocka_unit_test(the_emulated_instructions_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
