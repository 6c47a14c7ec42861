/* Compares every level to a product in double, and checks that the bits of a row depend only on the
 * row. */
#include "ops/cpu_kernels/linear.h"
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

struct weights {
    uint32_t in_size;
    const float *values;
};

static void weight_row(void *context, uint32_t row, float *out)
{
    const struct weights *weights = context;
    memcpy(out, weights->values + (size_t)row * weights->in_size, weights->in_size * sizeof *out);
}

struct layer {
    struct mr_cpu_linear *linear;
    float *values, *bias;
    float scale;
    uint32_t out_size, in_size;
    bool bf16;
};

/* A layer with a bias also has a scale that is not 1. */
static struct layer layer_make(uint32_t out_size, uint32_t in_size, bool bf16, bool bias,
                               enum mr_cpu_level level)
{
    uint64_t seed = 99 + out_size + in_size;
    struct layer layer = {
        .out_size = out_size, .in_size = in_size, .bf16 = bf16, .scale = bias ? 0.75f : 0.0f};
    layer.values = malloc((size_t)out_size * in_size * sizeof(float));
    layer.bias = malloc(out_size * sizeof(float));
    for (size_t i = 0; i < (size_t)out_size * in_size; i++)
        layer.values[i] = number_from_bf16(number_to_bf16(number_next(&seed)));
    for (size_t i = 0; i < out_size; i++)
        layer.bias[i] = number_next(&seed);
    struct weights weights = {in_size, layer.values};
    const struct mr_cpu_linear_spec spec = {.out_size = out_size,
                                            .in_size = in_size,
                                            .bf16 = bf16,
                                            .source = weight_row,
                                            .source_context = &weights,
                                            .bias = bias ? layer.bias : NULL,
                                            .scale = layer.scale,
                                            .level = level};
    struct mr_error err;
    assert_int_equal(mr_cpu_linear_create(&layer.linear, &spec, &err), MR_OK);
    if (!bias) {
        free(layer.bias);
        layer.bias = NULL;
    }
    return layer;
}

static void layer_drop(struct layer *layer)
{
    mr_cpu_linear_destroy(layer->linear);
    free(layer->values);
    free(layer->bias);
}

static void *rows_make(const struct layer *layer, uint32_t rows)
{
    uint64_t seed = 7;
    void *x = malloc((size_t)rows * layer->in_size * sizeof(float));
    for (size_t i = 0; i < (size_t)rows * layer->in_size; i++)
        number_set(x, i, number_next(&seed), layer->bf16);
    return x;
}

static double exact(const struct layer *layer, const void *x, uint32_t row, uint32_t column)
{
    double sum = layer->bias ? (double)layer->bias[column] : 0.0;
    for (uint32_t k = 0; k < layer->in_size; k++)
        sum += (double)number_at(x, (size_t)row * layer->in_size + k, layer->bf16) *
               (double)layer->values[(size_t)column * layer->in_size + k];
    return layer->bias ? sum * (double)layer->scale : sum;
}

static double gelu(double x)
{
    return x * (1.0 + erf(x / sqrt(2.0))) / 2.0;
}

static double gelu_tanh(double x)
{
    return x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x))) / 2.0;
}

static double activated(double gate, double up, enum mr_cpu_epilogue epilogue)
{
    switch (epilogue) {
    case MR_CPU_SILU_MUL:
        return gate / (1.0 + exp(-gate)) * up;
    case MR_CPU_GELU_MUL:
        return gelu(gate) * up;
    case MR_CPU_GELU_TANH_MUL:
        return gelu_tanh(gate) * up;
    default:
        gate = fmin(gate, 7.0);
        up = fmax(-7.0, fmin(up, 7.0));
        return gate / (1.0 + exp(-1.702 * gate)) * (up + 1.0);
    }
}

/* The expected output of an epilogue at [row, column]. */
static double expected(const struct layer *layer, const void *x, uint32_t row, uint32_t column,
                       enum mr_cpu_epilogue epilogue)
{
    if (epilogue == MR_CPU_ADD_F32) return 0.5 + exact(layer, x, row, column);
    if (epilogue == MR_CPU_STORE_F32) return exact(layer, x, row, column);
    return activated(exact(layer, x, row, 2 * column), exact(layer, x, row, 2 * column + 1),
                     epilogue);
}

static void check_epilogue(const struct layer *layer, uint32_t rows, enum mr_cpu_epilogue epilogue)
{
    void *x = rows_make(layer, rows);
    const bool gated = epilogue != MR_CPU_STORE_F32 && epilogue != MR_CPU_ADD_F32;
    const uint32_t width = gated ? layer->out_size / 2 : layer->out_size;
    const bool narrow = layer->bf16 && gated;
    void *out = malloc(((size_t)rows * width + 1) * sizeof(float));
    for (size_t i = 0; i <= (size_t)rows * width; i++)
        number_set(out, i, 0.5f, narrow);
    mr_cpu_linear_run(layer->linear, x, rows, epilogue, out, NULL);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 0; column < width; column++) {
            const double want = expected(layer, x, row, column, epilogue);
            const double got = (double)number_at(out, (size_t)row * width + column, narrow);
            const double slack = 1e-4 + fabs(want) * (narrow ? 1.0 / 256 : 1e-5);
            if (fabs(want - got) > slack) fail_msg("[%u, %u]: %g, want %g", row, column, got, want);
        }
    assert_true(number_at(out, (size_t)rows * width, narrow) == 0.5f);
    free(out);
    free(x);
}

static void check_level(enum mr_cpu_level level)
{
    static const uint32_t shapes[][2] = {{96, 64}, {50, 34}, {2, 2}, {178, 130}};
    static const uint32_t heights[] = {1, 2, 3, 5, 13, 31, 130};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int kind = 0; kind < 4; kind++) {
            struct layer layer =
                layer_make(shapes[s][0], shapes[s][1], kind & 1, (kind & 2) != 0, level);
            for (size_t h = 0; h < sizeof heights / sizeof *heights; h++)
                for (int epilogue = MR_CPU_STORE_F32; epilogue <= MR_CPU_SWIGLU_OAI_MUL; epilogue++)
                    check_epilogue(&layer, heights[h], (enum mr_cpu_epilogue)epilogue);
            layer_drop(&layer);
        }
}

static void every_level_matches_the_exact_product(void **state)
{
    (void)state;
    EACH_LEVEL (level)
        check_level(level);
}

static const float curve[4] = {0.8f, 0.7f, 0.5f, -0.25f}; /* of xIELU */

/* A layer whose outputs are its two inputs: with an up of 1, the result is the activation of the
 * gate. */
static struct mr_cpu_linear *identity(enum mr_cpu_level level)
{
    struct weights weights = {2, (const float[]){1, 0, 0, 1}};
    const struct mr_cpu_linear_spec spec = {.out_size = 2,
                                            .in_size = 2,
                                            .source = weight_row,
                                            .source_context = &weights,
                                            .curve = curve,
                                            .level = level};
    struct mr_cpu_linear *linear;
    struct mr_error err;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_OK);
    return linear;
}

static double xielu(double x)
{
    const double top = (double)curve[3], line = (double)curve[2] * x;
    if (x > 0.0) return (double)curve[0] * x * x + line;
    return (double)curve[1] * (expm1(x < top ? x : top) - x) + line;
}

static void squares_and_xielu_match_their_definitions(void **state)
{
    (void)state;
    enum { ROWS = 1601 };
    float *x = malloc(2 * ROWS * sizeof *x), *out = malloc(2 * ROWS * sizeof *out);
    for (int i = 0; i < 2 * ROWS; i++)
        x[i] = (float)(i - ROWS) / 100.0f; /* -16 to 16, with 0 */
    EACH_LEVEL (level) {
        struct mr_cpu_linear *linear = identity(level);
        mr_cpu_linear_run(linear, x, ROWS, MR_CPU_RELU2, out, NULL);
        for (int i = 0; i < 2 * ROWS; i++)
            assert_true(out[i] == (x[i] > 0.0f ? x[i] * x[i] : 0.0f));
        mr_cpu_linear_run(linear, x, ROWS, MR_CPU_XIELU, out, NULL);
        for (int i = 0; i < 2 * ROWS; i++) {
            const double want = xielu((double)x[i]);
            assert_true(fabs(want - (double)out[i]) <= fabs(want) * 3e-7 + 3e-7);
        }
        mr_cpu_linear_destroy(linear);
    }
    free(out);
    free(x);
}

static void gelu_is_as_exact_as_floats_are(void **state)
{
    (void)state;
    enum { ROWS = 24001 };
    float *x = malloc(2 * ROWS * sizeof *x), *out = malloc(ROWS * sizeof *out);
    for (int i = 0; i < ROWS; i++) {
        x[2 * i] = (float)(i - ROWS / 2) / 1500.0f; /* -8 to 8 */
        x[2 * i + 1] = 1.0f;
    }
    EACH_LEVEL (level) {
        struct mr_cpu_linear *linear = identity(level);
        for (int kind = MR_CPU_GELU_MUL; kind <= MR_CPU_GELU_TANH_MUL; kind++) {
            mr_cpu_linear_run(linear, x, ROWS, (enum mr_cpu_epilogue)kind, out, NULL);
            for (int i = 0; i < ROWS; i++) {
                const double v = (double)x[2 * i];
                const double want = kind == MR_CPU_GELU_MUL ? gelu(v) : gelu_tanh(v);
                /* An error of 2e-7 in erf or tanh, and the rounding of the result. */
                assert_true(fabs(want - (double)out[i]) <= fabs(v) * (1e-7 + 6e-8) + 2e-9);
            }
        }
        mr_cpu_linear_destroy(linear);
    }
    free(out);
    free(x);
}

static void a_gate_far_below_zero_gives_zero_and_nan_stays(void **state)
{
    (void)state;
    const float x[4] = {-1e30f, 1.0f, NAN, 1.0f};
    EACH_LEVEL (level) {
        struct mr_cpu_linear *linear = identity(level);
        for (int kind = MR_CPU_SILU_MUL; kind <= MR_CPU_SWIGLU_OAI_MUL; kind++) {
            float out[2];
            mr_cpu_linear_run(linear, x, 2, (enum mr_cpu_epilogue)kind, out, NULL);
            assert_true(fabsf(out[0]) < 1e-7f);
            assert_true(isnan(out[1]));
        }
        mr_cpu_linear_destroy(linear);
    }
}

/* Row i of a product of many rows has the bits of the product of row i alone. */
static void check_same_bits(enum mr_cpu_level level, bool bf16)
{
    struct layer layer = layer_make(208, 96, bf16, true, level);
    const size_t in_bytes = (size_t)layer.in_size * (bf16 ? 2 : 4);
    unsigned char *x = rows_make(&layer, 512);
    float *alone = malloc(512 * 208 * sizeof *alone), *together = malloc(512 * 208 * sizeof *alone);
    for (uint32_t row = 0; row < 512; row++)
        mr_cpu_linear_run(layer.linear, x + row * in_bytes, 1, MR_CPU_STORE_F32,
                          alone + (size_t)row * 208, NULL);
    for (uint32_t rows = 1; rows <= 512; rows += rows < 70 ? 1 : 221) {
        mr_cpu_linear_run(layer.linear, x, rows, MR_CPU_STORE_F32, together, NULL);
        assert_memory_equal(together, alone, (size_t)rows * 208 * sizeof *alone);
    }
    free(together);
    free(alone);
    free(x);
    layer_drop(&layer);
}

static void a_row_has_the_same_bits_in_every_batch(void **state)
{
    (void)state;
    EACH_LEVEL (level) {
        check_same_bits(level, true);
        check_same_bits(level, false);
    }
}

static void a_row_has_the_same_bits_with_every_thread_count(void **state)
{
    (void)state;
    struct layer layer = layer_make(1008, 64, true, false, MR_CPU_BEST);
    void *x = rows_make(&layer, 20);
    float *first = malloc(20 * 1008 * sizeof *first), *again = malloc(20 * 1008 * sizeof *first);
    struct mr_error err;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        assert_int_equal(mr_parallel_set_thread_count(threads, &err), MR_OK);
        mr_cpu_linear_run(layer.linear, x, 20, MR_CPU_STORE_F32, threads == 1 ? first : again,
                          NULL);
        if (threads > 1) assert_memory_equal(first, again, 20 * 1008 * sizeof *first);
    }
    assert_int_equal(mr_parallel_set_thread_count(2, &err), MR_OK);
    free(again);
    free(first);
    free(x);
    layer_drop(&layer);
}

static void rows_can_be_added_with_a_factor_each(void **state)
{
    (void)state;
    enum { ROWS = 150 };
    float factors[ROWS], *out = malloc(ROWS * 50 * sizeof *out);
    for (int i = 0; i < ROWS; i++)
        factors[i] = (float)(i % 11) / 4.0f - 1.0f;
    EACH_LEVEL (level)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct layer layer = layer_make(50, 34, bf16 != 0, true, level);
            void *x = rows_make(&layer, ROWS);
            for (int i = 0; i < ROWS * 50; i++)
                out[i] = 2.0f;
            const struct mr_cpu_linear_call call = {
                .x = x, .rows = ROWS, .epilogue = MR_CPU_ADD_F32, .out = out, .factors = factors};
            mr_cpu_linear_call(layer.linear, &call);
            for (uint32_t i = 0; i < ROWS * 50; i++) {
                const double want =
                    2.0 + (double)factors[i / 50] * exact(&layer, x, i / 50, i % 50);
                assert_true(fabs(want - (double)out[i]) <= 1e-4);
            }
            free(x);
            layer_drop(&layer);
        }
    free(out);
}

static void a_packed_weight_row_can_be_read_back(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct layer layer = layer_make(37, 66, bf16 != 0, false, MR_CPU_BEST);
        float row[66];
        for (uint32_t r = 0; r < 37; r++) {
            mr_cpu_linear_row(layer.linear, r, row);
            assert_memory_equal(row, layer.values + (size_t)r * 66, sizeof row);
        }
        assert_true(mr_cpu_linear_bytes(layer.linear) == 48u * 66u * (bf16 ? 2u : 4u));
        expect_assert_failure(mr_cpu_linear_row(layer.linear, 37, row));
        layer_drop(&layer);
    }
}

static void sizes_that_cannot_be_packed_are_rejected(void **state)
{
    (void)state;
    struct weights weights = {3, (const float[]){1, 2, 3}};
    struct mr_cpu_linear_spec spec = {.out_size = 1,
                                      .in_size = 3,
                                      .bf16 = true,
                                      .source = weight_row,
                                      .source_context = &weights};
    struct mr_cpu_linear *linear;
    struct mr_error err;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_UNSUPPORTED);
    assert_null(linear);
    spec.in_size = 0;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_UNSUPPORTED);
    spec.in_size = 3;
    spec.bf16 = false;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_OK);
    float out[1];
    expect_assert_failure(mr_cpu_linear_run(linear, weights.values, 1, MR_CPU_SILU_MUL, out,
                                            NULL)); /* needs an even number of weight rows */
    mr_cpu_linear_run(linear, weights.values, 0, MR_CPU_STORE_F32, NULL, NULL);
    mr_cpu_linear_destroy(linear);
    mr_cpu_linear_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_matches_the_exact_product),
        cmocka_unit_test(squares_and_xielu_match_their_definitions),
        cmocka_unit_test(gelu_is_as_exact_as_floats_are),
        cmocka_unit_test(a_gate_far_below_zero_gives_zero_and_nan_stays),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_batch),
        cmocka_unit_test(a_row_has_the_same_bits_with_every_thread_count),
        cmocka_unit_test(rows_can_be_added_with_a_factor_each),
        cmocka_unit_test(a_packed_weight_row_can_be_read_back),
        cmocka_unit_test(sizes_that_cannot_be_packed_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
