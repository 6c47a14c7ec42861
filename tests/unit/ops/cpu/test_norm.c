#include "ops/cpu/kernels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_norm(enum mr_cpu_level level, uint32_t rows, uint32_t width, bool bf16)
{
    uint64_t seed = width;
    float *x = malloc((size_t)rows * width * sizeof *x), *weight = malloc(width * sizeof *weight);
    void *out = malloc((size_t)rows * width * sizeof(float));
    for (size_t i = 0; i < (size_t)rows * width; i++)
        x[i] = number_next(&seed) * 3.0f;
    for (uint32_t i = 0; i < width; i++)
        weight[i] = number_next(&seed);
    const struct mr_cpu_norm norm = {
        .weight = weight, .epsilon = 1e-5f, .width = width, .bf16 = bf16, .level = level};
    mr_cpu_rms_norm(&norm, x, rows, out);
    for (uint32_t r = 0; r < rows; r++) {
        double squares = 0.0;
        for (uint32_t i = 0; i < width; i++)
            squares += (double)x[r * width + i] * (double)x[r * width + i];
        for (uint32_t i = 0; i < width; i++) {
            const double want =
                (double)x[r * width + i] / sqrt(squares / width + 1e-5) * (double)weight[i];
            const double got = (double)number_at(out, (size_t)r * width + i, bf16);
            assert_true(fabs(want - got) <= 1e-6 + fabs(want) * (bf16 ? 1.0 / 256 : 1e-6));
        }
    }
    free(out);
    free(weight);
    free(x);
}

static void every_level_matches_the_definition(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 15, 16, 17, 31, 32, 33, 48, 576};
    for (int level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                check_norm((enum mr_cpu_level)level, 3, widths[w], bf16 != 0);
                check_norm((enum mr_cpu_level)level, 100, widths[w], bf16 != 0);
            }
}

static void a_row_of_zeros_stays_zero(void **state)
{
    (void)state;
    const float x[40] = {0}, weight[40] = {1.0f};
    float out[40];
    const struct mr_cpu_norm norm = {.weight = weight, .epsilon = 1e-6f, .width = 40};
    mr_cpu_rms_norm(&norm, x, 1, out);
    for (int i = 0; i < 40; i++)
        assert_true(out[i] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_matches_the_definition),
        cmocka_unit_test(a_row_of_zeros_stays_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
