/* Linear layers and experts with integer weights: bands of several formats in one layer, every
 * epilogue, every level, every batch. tests/unit/ops/cpu_kernels/quant checks the products
 * themselves. */
#include "ops/cpu_kernels/expert_kernels.h"
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

#define ROWS 150u

static _Alignas(64) unsigned char scratch[MR_CPU_LINEAR_SCRATCH_BYTES];

/* Rows in several storages: random bytes, and the numbers to which mr_dequant converts them. */
struct weights {
    uint32_t out_size, in_size;
    float *numbers; /* [out_size][in_size] */
    unsigned char *stored;
    size_t row_bytes; /* room of a stored row: that of the largest storage */
    uint32_t padding; /* this row is stored as NULL; none: out_size */
};

static void read_row(void *context, uint32_t row, float *out)
{
    const struct weights *w = context;
    memcpy(out, w->numbers + (size_t)row * w->in_size, w->in_size * sizeof *out);
}

static const unsigned char *read_bytes(void *context, uint32_t row)
{
    const struct weights *w = context;
    return row == w->padding ? NULL : w->stored + row * w->row_bytes;
}

static void fill_row(enum mr_storage storage, unsigned char *row, uint32_t in_size, uint64_t *seed)
{
    const size_t bytes = mr_storage_block_bytes(storage);
    const uint16_t half = 0x1c00; /* 2^-8 */
    for (size_t b = 0; b < in_size / mr_storage_block_numbers(storage); b++, row += bytes) {
        for (size_t i = 0; i < bytes; i++)
            row[i] = (unsigned char)(int)(number_next(seed) * 1000.0f);
        memcpy(row + (storage == MR_STORAGE_Q6_K ? 208 : 0), &half, 2);
        if (storage == MR_STORAGE_Q4_K) memcpy(row + 2, &half, 2);
    }
}

#define OUT_SIZE 136u
#define IN_SIZE  256u

/* 80 rows of Q4_K, 32 of Q6_K, 24 of Q8_0: bands of 5, 2 and 2 panels, the last one not full. */
static struct weights weights_make(void)
{
    uint64_t seed = 77;
    struct weights w = {.out_size = OUT_SIZE, .in_size = IN_SIZE, .row_bytes = 272, .padding = 17};
    w.numbers = calloc(OUT_SIZE * IN_SIZE, sizeof(float));
    w.stored = malloc(OUT_SIZE * w.row_bytes);
    for (uint32_t row = 0; row < OUT_SIZE; row++) {
        const enum mr_storage storage = row < 80    ? MR_STORAGE_Q4_K
                                        : row < 112 ? MR_STORAGE_Q6_K
                                                    : MR_STORAGE_Q8_0;
        fill_row(storage, w.stored + row * w.row_bytes, IN_SIZE, &seed);
        if (row == w.padding) continue;
        mr_dequant(storage, w.stored + row * w.row_bytes, IN_SIZE, w.numbers + row * IN_SIZE);
    }
    return w;
}

static void weights_drop(struct weights *w)
{
    free(w->numbers);
    free(w->stored);
}

static struct mr_cpu_linear *layer_make(struct weights *w, bool bf16, enum mr_quant_format format,
                                        const float *bias, enum mr_cpu_level level)
{
    struct mr_cpu_linear_spec spec = {.out_size = w->out_size,
                                      .in_size = w->in_size,
                                      .bf16 = bf16,
                                      .source = read_row,
                                      .source_context = w,
                                      .bands = {{w->out_size, format}},
                                      .band_count = 1,
                                      .bias = bias,
                                      .scale = bias ? 0.75f : 0.0f,
                                      .level = level};
    if (format == MR_QUANT_NONE) {
        spec.bands[0] = (struct mr_quant_band){80, MR_QUANT_Q4_K};
        spec.bands[1] = (struct mr_quant_band){32, MR_QUANT_Q6_K};
        spec.bands[2] = (struct mr_quant_band){24, MR_QUANT_Q8_0};
        spec.band_count = 3;
        spec.stored = read_bytes;
    }
    struct mr_cpu_linear *linear;
    struct mr_error err;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_OK);
    return linear;
}

static void *rows_make(uint32_t rows, uint32_t in_size, bool bf16)
{
    uint64_t seed = 7;
    void *x = malloc((size_t)rows * in_size * sizeof(float));
    for (size_t i = 0; i < (size_t)rows * in_size; i++)
        number_set(x, i, number_next(&seed), bf16);
    return x;
}

static void bands_keep_the_stored_numbers(void **state)
{
    (void)state;
    struct weights w = weights_make();
    struct mr_cpu_linear *linear = layer_make(&w, true, MR_QUANT_NONE, NULL, MR_CPU_BEST);
    float row[IN_SIZE];
    for (uint32_t i = 0; i < OUT_SIZE; i++) {
        mr_cpu_linear_row(linear, i, row);
        for (uint32_t k = 0; k < IN_SIZE; k++)
            assert_true(row[k] == w.numbers[i * IN_SIZE + k]);
    }
    /* 5, 2 and 2 panels of 144, 210 and 272 bytes a row, each rounded up to lines of 64 bytes */
    assert_true(mr_cpu_linear_bytes(linear) >= 16u * (5 * 144 + 2 * 210 + 2 * 272));
    assert_true(mr_cpu_linear_bytes(linear) <= 16u * (5 * 152 + 2 * 220 + 2 * 280));
    mr_cpu_linear_destroy(linear);
    weights_drop(&w);
}

/* The product differs from the exact one only by the rounding of x: half a step of 1/127 of the
 * largest of 16 numbers, many times with both signs. */
static void a_product_is_near_the_exact_one(void **state)
{
    (void)state;
    struct weights w = weights_make();
    float bias[OUT_SIZE], *out = malloc(ROWS * OUT_SIZE * sizeof *out);
    for (uint32_t i = 0; i < OUT_SIZE; i++)
        bias[i] = (float)i;
    void *x = rows_make(ROWS, IN_SIZE, true);
    struct mr_cpu_linear *linear = layer_make(&w, true, MR_QUANT_NONE, bias, MR_CPU_BEST);
    mr_cpu_linear_run(linear, x, ROWS, MR_CPU_STORE_F32, out, scratch);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < OUT_SIZE; c++) {
            double sum = (double)bias[c], squares = 0;
            for (uint32_t k = 0; k < IN_SIZE; k++) {
                const double weight = (double)w.numbers[c * IN_SIZE + k];
                sum += weight * (double)number_at(x, (size_t)r * IN_SIZE + k, true);
                squares += weight * weight;
            }
            const double off = fabs(0.75 * sum - (double)out[r * OUT_SIZE + c]);
            assert_true(off <= 0.02 * sqrt(squares) + 1e-4);
        }
    free(out);
    free(x);
    mr_cpu_linear_destroy(linear);
    weights_drop(&w);
}

/* Every level, batch and thread count produces the bits of one row on the scalar level. */
static void all_levels_and_batches_give_the_same_bits(void **state)
{
    (void)state;
    static const enum mr_quant_format formats[] = {MR_QUANT_NONE, MR_QUANT_INT8, MR_QUANT_Q4_0};
    struct weights w = weights_make();
    void *x = rows_make(ROWS, IN_SIZE, true);
    float *alone = malloc(ROWS * OUT_SIZE * sizeof *alone),
          *all = malloc(ROWS * OUT_SIZE * sizeof *alone);
    for (size_t f = 0; f < 3; f++) {
        struct mr_cpu_linear *scalar = layer_make(&w, true, formats[f], NULL, MR_CPU_SCALAR);
        for (uint32_t r = 0; r < ROWS; r++)
            mr_cpu_linear_run(scalar, (uint16_t *)x + r * IN_SIZE, 1, MR_CPU_STORE_F32,
                              alone + r * OUT_SIZE, scratch);
        mr_cpu_linear_destroy(scalar);
        EACH_LEVEL (level) {
            struct mr_cpu_linear *linear = layer_make(&w, true, formats[f], NULL, level);
            for (uint32_t rows = 1; rows <= ROWS; rows += rows < 33 ? 1 : 39) {
                mr_cpu_linear_run(linear, x, rows, MR_CPU_STORE_F32, all, scratch);
                assert_memory_equal(all, alone, rows * OUT_SIZE * sizeof *all);
            }
            mr_cpu_linear_destroy(linear);
        }
    }
    free(alone);
    free(all);
    free(x);
    weights_drop(&w);
}

/* The gated epilogues and the factors see the same products as the plain one. */
static void add_rows(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                     const float *factors, float *out)
{
    const struct mr_cpu_linear_call call = {.x = x,
                                            .rows = rows,
                                            .epilogue = MR_CPU_ADD_F32,
                                            .out = out,
                                            .scratch = scratch,
                                            .factors = factors};
    mr_cpu_linear_call(linear, &call);
}

static void epilogues_follow_the_product(void **state)
{
    (void)state;
    struct weights w = weights_make();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct mr_cpu_linear *linear = layer_make(&w, bf16, MR_QUANT_INT8, NULL, MR_CPU_BEST);
        void *x = rows_make(ROWS, IN_SIZE, bf16);
        float *plain = malloc(ROWS * OUT_SIZE * sizeof *plain), factors[ROWS];
        float *added = malloc(ROWS * OUT_SIZE * sizeof *added);
        void *gated = malloc(ROWS * OUT_SIZE / 2 * sizeof(float));
        for (uint32_t i = 0; i < ROWS * OUT_SIZE; i++)
            added[i] = 1.0f;
        for (uint32_t r = 0; r < ROWS; r++)
            factors[r] = (float)(r % 7) - 3.0f;
        mr_cpu_linear_run(linear, x, ROWS, MR_CPU_STORE_F32, plain, scratch);
        mr_cpu_linear_run(linear, x, ROWS, MR_CPU_SILU_MUL, gated, scratch);
        add_rows(linear, x, ROWS, factors, added);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t c = 0; c < OUT_SIZE / 2; c++) {
                const double gate = (double)plain[r * OUT_SIZE + 2 * c];
                const double up = (double)plain[r * OUT_SIZE + 2 * c + 1];
                const double want = gate / (1.0 + exp(-gate)) * up;
                const double got = (double)number_at(gated, r * OUT_SIZE / 2 + c, bf16);
                assert_true(fabs(got - want) <= fabs(want) / 250.0 + 1e-5);
                const double sum = 1.0 + (double)factors[r] * gate;
                assert_true(fabs((double)added[r * OUT_SIZE + 2 * c] - sum) <=
                            1e-5 * (1.0 + fabs(sum)));
            }
        free(gated);
        free(added);
        free(plain);
        free(x);
        mr_cpu_linear_destroy(linear);
    }
    weights_drop(&w);
}

/* ---- experts ---- */

#define EXPERTS 5u
#define TOP_K   2u
#define HIDDEN  64u
#define FFN     96u

/* Experts with integer weights produce the bits of their layers, run for each row alone. */
static void experts_give_the_bits_of_their_layers(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct mr_cpu_linear *gate_up[EXPERTS], *down[EXPERTS];
    struct weights w[2] = {{.out_size = 2 * FFN, .in_size = HIDDEN, .padding = UINT32_MAX},
                           {.out_size = HIDDEN, .in_size = FFN, .padding = UINT32_MAX}};
    uint64_t seed = 31;
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (int i = 0; i < 2; i++) {
            w[i].numbers = malloc((size_t)w[i].out_size * w[i].in_size * sizeof(float));
            for (size_t k = 0; k < (size_t)w[i].out_size * w[i].in_size; k++)
                w[i].numbers[k] = number_next(&seed);
            struct mr_cpu_linear **to = i == 0 ? gate_up : down;
            to[e] =
                layer_make(&w[i], true, i == 0 ? MR_QUANT_Q4_0 : MR_QUANT_INT8, NULL, MR_CPU_BEST);
            free(w[i].numbers);
        }
    const struct mr_cpu_expert_layer layer = {
        .gate_up = gate_up,
        .down = down,
        .routing = {.expert_count = EXPERTS, .top_k = TOP_K, .normalize = true},
        .activation = MR_CPU_SILU_MUL};
    struct mr_cpu_expert_buffers buffers = {COUNT, EXPERTS, TOP_K, HIDDEN, FFN, 0, true, NULL};
    const size_t bytes = (mr_cpu_expert_bytes(&buffers) + 63) / 64 * 64;
    buffers.memory = aligned_alloc(64, bytes);
    void *x = rows_make(COUNT, HIDDEN, true);
    float logits[COUNT * EXPERTS], weights[COUNT * TOP_K], *out = calloc(COUNT * HIDDEN, 4);
    uint32_t chosen[COUNT * TOP_K];
    for (uint32_t i = 0; i < COUNT * EXPERTS; i++)
        logits[i] = number_next(&seed);
    mr_cpu_experts_run(&layer, &buffers, x, logits, COUNT, out);
    mr_cpu_route(&layer.routing, logits, COUNT, chosen, weights);
    for (uint32_t r = 0; r < COUNT; r++) {
        float expected[HIDDEN] = {0};
        uint16_t gated[FFN];
        for (uint32_t e = 0; e < EXPERTS; e++)
            for (uint32_t k = 0; k < TOP_K; k++) {
                if (chosen[r * TOP_K + k] != e) continue;
                mr_cpu_linear_run(gate_up[e], (uint16_t *)x + r * HIDDEN, 1, MR_CPU_SILU_MUL, gated,
                                  scratch);
                add_rows(down[e], gated, 1, &weights[r * TOP_K + k], expected);
            }
        assert_memory_equal(out + r * HIDDEN, expected, sizeof expected);
    }
    for (uint32_t e = 0; e < EXPERTS; e++) {
        mr_cpu_linear_destroy(gate_up[e]);
        mr_cpu_linear_destroy(down[e]);
    }
    free(buffers.memory);
    free(out);
    free(x);
}

static void too_many_inputs_are_rejected(void **state)
{
    (void)state;
    struct weights w = {.out_size = 2, .in_size = 400000};
    const struct mr_cpu_linear_spec spec = {.out_size = 2,
                                            .in_size = 400000,
                                            .source = read_row,
                                            .source_context = &w,
                                            .bands = {{2, MR_QUANT_INT8}},
                                            .band_count = 1};
    struct mr_cpu_linear *linear;
    struct mr_error err;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_UNSUPPORTED);
    assert_null(linear);
    assert_non_null(strstr(err.detail, "2 x 400000"));
}

static int two_threads(void **state)
{
    struct mr_error err;
    (void)state;
    return mr_parallel_set_thread_count(2, &err) != MR_OK;
}

static int one_thread(void **state)
{
    struct mr_error err;
    (void)state;
    return mr_parallel_set_thread_count(1, &err) != MR_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bands_keep_the_stored_numbers),
        cmocka_unit_test(a_product_is_near_the_exact_one),
        cmocka_unit_test(all_levels_and_batches_give_the_same_bits),
        cmocka_unit_test(epilogues_follow_the_product),
        cmocka_unit_test(experts_give_the_bits_of_their_layers),
        cmocka_unit_test(too_many_inputs_are_rejected),
    };
    return cmocka_run_group_tests(tests, two_threads, one_thread);
}
