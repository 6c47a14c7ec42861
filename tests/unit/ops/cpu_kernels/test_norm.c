/* Compares every level to the definition in double, and checks that the bits of a row depend only
 * on the row. */
#include "ops/cpu_kernels/kernels.h"
#include "ops/cpu_kernels/parallel.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* One case: a norm, with room for its weights, and rows of numbers. */
struct fixture {
    struct mr_cpu_norm norm;
    uint32_t rows;
    float *x, *weight, *bias;
};

enum { WEIGHT = 1, CENTERED = 2, BIAS = 4, PADDED = 8 };

/* kind: a sum of the constants above. The last third of a padded row is zero. */
static struct fixture fixture_create(uint32_t rows, uint32_t width, int kind,
                                     enum mr_cpu_level level)
{
    uint64_t seed = width;
    struct fixture fixture = {.rows = rows};
    fixture.x = malloc((size_t)rows * width * sizeof(float));
    fixture.weight = malloc(width * sizeof(float));
    fixture.bias = malloc(width * sizeof(float));
    const uint32_t padding = kind & PADDED ? width / 3 : 0;
    for (size_t i = 0; i < (size_t)rows * width; i++)
        fixture.x[i] = i % width < width - padding ? number_next(&seed) * 3.0f + 0.7f : 0.0f;
    for (uint32_t i = 0; i < width; i++) {
        fixture.weight[i] = number_next(&seed);
        fixture.bias[i] = number_next(&seed);
    }
    fixture.norm = (struct mr_cpu_norm){.weight = kind & WEIGHT ? fixture.weight : NULL,
                                        .bias = kind & BIAS ? fixture.bias : NULL,
                                        .epsilon = 1e-5f,
                                        .width = width,
                                        .padding = padding,
                                        .centered = (kind & CENTERED) != 0,
                                        .level = level};
    return fixture;
}

static void fixture_destroy(struct fixture *fixture)
{
    free(fixture->x);
    free(fixture->weight);
    free(fixture->bias);
}

/* The expected numbers of a row, in double. */
static void expect_row(const struct fixture *fixture, uint32_t row, double *want)
{
    const struct mr_cpu_norm *norm = &fixture->norm;
    const float *x = fixture->x + (size_t)row * norm->width;
    const double count = norm->width - norm->padding;
    double mean = 0.0, squares = 0.0;
    for (uint32_t i = 0; norm->centered && i < norm->width; i++)
        mean += (double)x[i] / count;
    for (uint32_t i = 0; i < norm->width; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (uint32_t i = 0; i < norm->width; i++) {
        want[i] = ((double)x[i] - mean) / sqrt(squares / count + 1e-5);
        if (norm->weight) want[i] *= (double)norm->weight[i];
        if (norm->bias) want[i] += (double)norm->bias[i];
    }
}

static void check_norm(struct fixture *fixture, bool bf16)
{
    const uint32_t width = fixture->norm.width;
    void *out = malloc((size_t)fixture->rows * width * sizeof(float));
    float *added = malloc((size_t)fixture->rows * width * sizeof *added);
    double *want = malloc(width * sizeof *want);
    for (size_t i = 0; i < (size_t)fixture->rows * width; i++)
        added[i] = (float)(i % 7);
    fixture->norm.bf16 = bf16;
    mr_cpu_norm(&fixture->norm, fixture->x, fixture->rows, out);
    mr_cpu_norm_add(&fixture->norm, fixture->x, fixture->rows, 0.25f, added);
    for (uint32_t r = 0; r < fixture->rows; r++) {
        expect_row(fixture, r, want);
        for (uint32_t i = 0; i < width; i++) {
            const size_t at = (size_t)r * width + i;
            const double got = (double)number_at(out, at, bf16);
            const double sum = (double)(at % 7) + 0.25 * want[i];
            assert_true(fabs(want[i] - got) <= 2e-6 + fabs(want[i]) * (bf16 ? 1.0 / 256 : 1e-6));
            assert_true(fabs(sum - (double)added[at]) <= 2e-6 + fabs(sum) * 1e-6);
        }
    }
    free(want);
    free(added);
    free(out);
}

static void every_level_matches_the_definition(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 15, 16, 17, 31, 32, 33, 48, 576};
    static const int kinds[] = {WEIGHT,
                                0,
                                WEIGHT | PADDED,
                                CENTERED,
                                CENTERED | WEIGHT,
                                CENTERED | BIAS,
                                CENTERED | WEIGHT | BIAS};
    EACH_LEVEL (level)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                for (uint32_t rows = 3; rows <= 100; rows += 97) {
                    struct fixture fixture = fixture_create(rows, widths[w], kinds[k], level);
                    check_norm(&fixture, false);
                    check_norm(&fixture, true);
                    fixture_destroy(&fixture);
                }
}

static void a_row_has_the_same_bits_in_every_batch(void **state)
{
    (void)state;
    struct mr_error err;
    EACH_LEVEL (level)
        for (int kind = WEIGHT; kind <= (WEIGHT | CENTERED | BIAS); kind += CENTERED | BIAS) {
            struct fixture fixture = fixture_create(200, 333, kind, level);
            float *together = calloc((size_t)200 * 333 * 2, sizeof *together), alone[333];
            float *added = together + (size_t)200 * 333;
            assert_int_equal(mr_parallel_set_thread_count(3, &err), MR_OK);
            mr_cpu_norm(&fixture.norm, fixture.x, 200, together);
            mr_cpu_norm_add(&fixture.norm, fixture.x, 200, 0.3f, added);
            assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
            for (size_t r = 0; r < 200; r++) {
                mr_cpu_norm(&fixture.norm, fixture.x + r * 333, 1, alone);
                assert_memory_equal(alone, together + r * 333, sizeof alone);
                memset(alone, 0, sizeof alone);
                mr_cpu_norm_add(&fixture.norm, fixture.x + r * 333, 1, 0.3f, alone);
                assert_memory_equal(alone, added + r * 333, sizeof alone);
            }
            free(together);
            fixture_destroy(&fixture);
        }
}

static void a_row_of_zeros_stays_zero(void **state)
{
    (void)state;
    const float x[40] = {0}, weight[40] = {1.0f};
    float out[40];
    const struct mr_cpu_norm norm = {.weight = weight, .epsilon = 1e-6f, .width = 40};
    mr_cpu_norm(&norm, x, 1, out);
    for (int i = 0; i < 40; i++)
        assert_true(out[i] == 0.0f);
}

static void a_soft_cap_is_a_scaled_tanh(void **state)
{
    (void)state;
    enum { COUNT = 70001 }; /* more than one part, and not a multiple of 16 */
    float *x = malloc((COUNT + 1) * sizeof *x);
    struct mr_error err;
    EACH_LEVEL (level)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            assert_int_equal(mr_parallel_set_thread_count(threads, &err), MR_OK);
            for (int i = 0; i <= COUNT; i++)
                x[i] = (float)(i - COUNT / 2) / 100.0f; /* -350 to 350 */
            mr_cpu_softcap(x, COUNT, 30.0f, level);
            for (int i = 0; i < COUNT; i++) {
                const double want = 30.0 * tanh((double)(i - COUNT / 2) / 3000.0);
                assert_true(fabs(want - (double)x[i]) <= 30.0 * 3e-7);
            }
            assert_true(x[COUNT] == (float)(COUNT - COUNT / 2) / 100.0f);
        }
    float ends[3] = {-INFINITY, INFINITY, NAN};
    mr_cpu_softcap(ends, 3, 30.0f, MR_CPU_BEST);
    assert_true(ends[0] == -30.0f && ends[1] == 30.0f && isnan(ends[2]));
    mr_cpu_softcap(x, 0, 30.0f, MR_CPU_BEST);
    assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
    free(x);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    const float x[4] = {1, 2, 3, 4};
    float out[4];
    struct mr_cpu_norm norm = {.bias = x, .epsilon = 1e-6f, .width = 4};
    expect_assert_failure(mr_cpu_norm(&norm, x, 1, out)); /* only a layer norm has a bias */
    norm = (struct mr_cpu_norm){.epsilon = 1e-6f, .width = 4, .padding = 1, .centered = true};
    expect_assert_failure(mr_cpu_norm(&norm, x, 1, out)); /* padding would not stay zero */
    norm = (struct mr_cpu_norm){.epsilon = 1e-6f, .width = 4, .padding = 4};
    expect_assert_failure(mr_cpu_norm(&norm, x, 1, out));
}

static void rows_without_a_norm_are_converted(void **state)
{
    (void)state;
    const float x[2][3] = {{1.0f, -2.5f, 0.0f}, {3.0f, 1.0f + 1.0f / 512, 7.0f}};
    float same[6];
    uint16_t rounded[6];
    mr_cpu_convert(x[0], 2, 3, false, same);
    assert_memory_equal(same, x, sizeof same);
    mr_cpu_convert(x[0], 2, 3, true, rounded);
    assert_int_equal(rounded[0], 0x3f80);
    assert_int_equal(rounded[1], 0xc020);
    assert_int_equal(rounded[4], 0x3f80); /* rounded to even */
    assert_int_equal(rounded[5], 0x40e0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_matches_the_definition),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_batch),
        cmocka_unit_test(a_row_of_zeros_stays_zero),
        cmocka_unit_test(a_soft_cap_is_a_scaled_tanh),
        cmocka_unit_test(misuse_is_caught),
        cmocka_unit_test(rows_without_a_norm_are_converted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
