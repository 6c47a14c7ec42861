/* Compares the sum of experts to a computation in double, at every level, and
 * checks that the bits of a row depend only on the row. */
#include "ops/cpu_kernels/expert_kernels.h"
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

/* ---- a layer of experts ---- */

struct shape {
    uint32_t hidden, ffn, experts, top_k;
    enum mr_cpu_epilogue activation;
    bool normalize, bias, bf16;
    enum mr_cpu_level level;
};

struct fixture {
    struct shape shape;
    struct mr_cpu_expert_layer layer;
    struct mr_cpu_linear **gate_up, **down;
    float
        *values; /* per expert: gate_up [2 * ffn, hidden], its bias, down [hidden, ffn], its bias */
    uint32_t rows;
    void *x;
    float *logits;
};

static size_t values_each(const struct shape *shape)
{
    return 3 * (size_t)shape->hidden * shape->ffn + 2 * shape->ffn + shape->hidden;
}

struct source {
    const float *values;
    uint32_t in_size;
};

static void weight_row(void *context, uint32_t row, float *out)
{
    const struct source *source = context;
    memcpy(out, source->values + (size_t)row * source->in_size, source->in_size * sizeof *out);
}

static struct mr_cpu_linear *make_linear(const struct shape *shape, uint32_t out_size,
                                         uint32_t in_size, const float *values)
{
    struct source source = {values, in_size};
    const struct mr_cpu_linear_spec spec = {
        .out_size = out_size,
        .in_size = in_size,
        .bf16 = shape->bf16,
        .source = weight_row,
        .source_context = &source,
        .bias = shape->bias ? values + (size_t)out_size * in_size : NULL,
        .level = shape->level};
    struct mr_cpu_linear *linear;
    struct mr_error err;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, &err), MR_OK);
    return linear;
}

static struct fixture fixture_create(const struct shape *shape, uint32_t rows)
{
    struct fixture fixture = {.shape = *shape, .rows = rows};
    const size_t each = values_each(shape), down = 2 * (size_t)shape->ffn * (shape->hidden + 1);
    uint64_t seed = 21;
    fixture.values = malloc(shape->experts * each * sizeof(float));
    for (size_t i = 0; i < shape->experts * each; i++)
        fixture.values[i] = number_from_bf16(number_to_bf16(number_next(&seed) * 0.5f));
    fixture.gate_up = malloc(shape->experts * sizeof(void *));
    fixture.down = malloc(shape->experts * sizeof(void *));
    for (uint32_t e = 0; e < shape->experts; e++) {
        const float *values = fixture.values + e * each;
        fixture.gate_up[e] = make_linear(shape, 2 * shape->ffn, shape->hidden, values);
        fixture.down[e] = make_linear(shape, shape->hidden, shape->ffn, values + down);
    }
    fixture.x = malloc((size_t)rows * shape->hidden * sizeof(float));
    for (size_t i = 0; i < (size_t)rows * shape->hidden; i++)
        number_set(fixture.x, i, number_next(&seed), shape->bf16);
    fixture.logits = malloc((size_t)rows * shape->experts * sizeof(float));
    for (size_t i = 0; i < (size_t)rows * shape->experts; i++)
        fixture.logits[i] = number_next(&seed) * 3.0f;
    fixture.layer = (struct mr_cpu_expert_layer){.gate_up = fixture.gate_up,
                                                 .down = fixture.down,
                                                 .routing = {.expert_count = shape->experts,
                                                             .top_k = shape->top_k,
                                                             .normalize = shape->normalize},
                                                 .activation = shape->activation};
    return fixture;
}

static void fixture_destroy(struct fixture *fixture)
{
    for (uint32_t e = 0; e < fixture->shape.experts; e++) {
        mr_cpu_linear_destroy(fixture->gate_up[e]);
        mr_cpu_linear_destroy(fixture->down[e]);
    }
    free(fixture->gate_up);
    free(fixture->down);
    free(fixture->values);
    free(fixture->x);
    free(fixture->logits);
}

static struct mr_cpu_expert_buffers make_buffers(const struct shape *shape, uint32_t rows_max)
{
    struct mr_cpu_expert_buffers buffers = {.rows_max = rows_max,
                                            .expert_count = shape->experts,
                                            .top_k = shape->top_k,
                                            .hidden_size = shape->hidden,
                                            .ffn_size = shape->ffn,
                                            .bf16 = shape->bf16};
    const size_t bytes = mr_cpu_expert_bytes(&buffers);
    assert_int_equal(bytes % 64, 0);
    buffers.memory = aligned_alloc(64, bytes);
    memset(buffers.memory, 0xff, bytes);
    return buffers;
}

/* Runs rows [first, first + count); out [count, hidden] is set to 0.5 first. */
static void fixture_run(const struct fixture *fixture, uint32_t first, uint32_t count, float *out)
{
    const struct shape *shape = &fixture->shape;
    struct mr_cpu_expert_buffers buffers = make_buffers(shape, count);
    for (size_t i = 0; i < (size_t)count * shape->hidden; i++)
        out[i] = 0.5f;
    mr_cpu_experts_run(&fixture->layer, &buffers,
                       (unsigned char *)fixture->x +
                           (size_t)first * shape->hidden * (shape->bf16 ? 2 : 4),
                       fixture->logits + (size_t)first * shape->experts, count, out);
    free(buffers.memory);
}

static double activated(double gate, double up, enum mr_cpu_epilogue activation)
{
    if (activation == MR_CPU_SILU_MUL) return gate / (1.0 + exp(-gate)) * up;
    gate = fmin(gate, 7.0);
    up = fmax(-7.0, fmin(up, 7.0));
    return gate / (1.0 + exp(-1.702 * gate)) * (up + 1.0);
}

/* Adds weight * (output of one expert for a row) to want. */
static void add_expert(const struct fixture *fixture, uint32_t row, uint32_t expert, double weight,
                       double *want)
{
    const struct shape *shape = &fixture->shape;
    const uint32_t hidden = shape->hidden, ffn = shape->ffn;
    const float *up = fixture->values + expert * values_each(shape);
    const float *down = up + 2 * (size_t)ffn * (hidden + 1);
    double *inner = calloc(2 * ffn, sizeof *inner);
    for (uint32_t i = 0; i < 2 * ffn; i++) {
        inner[i] = shape->bias ? (double)up[2 * (size_t)ffn * hidden + i] : 0.0;
        for (uint32_t d = 0; d < hidden; d++)
            inner[i] += (double)number_at(fixture->x, (size_t)row * hidden + d, shape->bf16) *
                        (double)up[(size_t)i * hidden + d];
    }
    for (uint32_t d = 0; d < hidden; d++) {
        double sum = shape->bias ? (double)down[(size_t)hidden * ffn + d] : 0.0;
        for (uint32_t i = 0; i < ffn; i++)
            sum += activated(inner[2 * i], inner[2 * i + 1], shape->activation) *
                   (double)down[(size_t)d * ffn + i];
        want[d] += weight * sum;
    }
    free(inner);
}

static void check_rows(const struct fixture *fixture)
{
    const struct shape *shape = &fixture->shape;
    const size_t count = (size_t)fixture->rows * shape->hidden;
    float *out = malloc(count * sizeof *out);
    uint32_t *experts = malloc(fixture->rows * shape->top_k * sizeof *experts);
    float *weights = malloc(fixture->rows * shape->top_k * sizeof *weights);
    double *want = malloc(shape->hidden * sizeof *want);
    fixture_run(fixture, 0, fixture->rows, out);
    mr_cpu_route(&fixture->layer.routing, fixture->logits, fixture->rows, experts, weights);
    for (uint32_t row = 0; row < fixture->rows; row++) {
        for (uint32_t d = 0; d < shape->hidden; d++)
            want[d] = 0.5;
        for (uint32_t i = row * shape->top_k; i < (row + 1) * shape->top_k; i++)
            add_expert(fixture, row, experts[i], (double)weights[i], want);
        for (uint32_t d = 0; d < shape->hidden; d++) {
            const double got = (double)out[(size_t)row * shape->hidden + d];
            if (fabs(want[d] - got) > (shape->bf16 ? 0.05 : 2e-5) * (1.0 + fabs(want[d])))
                fail_msg("[%u, %u]: %g, want %g", row, d, got, want[d]);
        }
    }
    free(want);
    free(weights);
    free(experts);
    free(out);
}

static void every_level_matches_the_definition(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.hidden = 64, .ffn = 48, .experts = 4, .top_k = 2, .normalize = true},
        {.hidden = 50, .ffn = 22, .experts = 9, .top_k = 3},
        {.hidden = 34, .ffn = 36, .experts = 40, .top_k = 8, .bias = true, .normalize = true},
        {.hidden = 16, .ffn = 2, .experts = 3, .top_k = 3},
        {.hidden = 32, .ffn = 32, .experts = 1, .top_k = 1, .bias = true},
    };
    EACH_LEVEL (level)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int kind = 0; kind < 4; kind++) {
                struct shape shape = shapes[s];
                shape.level = level;
                shape.bf16 = (kind & 1) != 0;
                shape.activation = kind & 2 ? MR_CPU_SWIGLU_OAI_MUL : MR_CPU_SILU_MUL;
                struct fixture fixture = fixture_create(&shape, kind == 0 ? 300 : 19);
                check_rows(&fixture);
                fixture_destroy(&fixture);
            }
}

static void a_row_has_the_same_bits_in_every_batch(void **state)
{
    (void)state;
    enum { ROWS = 290, HIDDEN = 96 };
    static float alone[ROWS * HIDDEN], together[ROWS * HIDDEN];
    struct mr_error err;
    EACH_LEVEL (level)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const struct shape shape = {.hidden = HIDDEN,
                                        .ffn = 80,
                                        .experts = 6,
                                        .top_k = 3,
                                        .bias = true,
                                        .bf16 = bf16 != 0,
                                        .activation = MR_CPU_SILU_MUL,
                                        .level = level};
            struct fixture fixture = fixture_create(&shape, ROWS);
            assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
            for (uint32_t row = 0; row < ROWS; row++)
                fixture_run(&fixture, row, 1, alone + row * HIDDEN);
            for (uint32_t rows = 2, first = 0; rows <= ROWS; rows += 1 + rows / 2, first = 5) {
                assert_int_equal(mr_parallel_set_thread_count(1 + rows % 3, &err), MR_OK);
                const uint32_t count = rows + first <= ROWS ? rows : ROWS - first;
                fixture_run(&fixture, first, count, together);
                assert_memory_equal(together, alone + first * HIDDEN,
                                    (size_t)count * HIDDEN * sizeof *alone);
            }
            fixture_destroy(&fixture);
        }
    assert_int_equal(mr_parallel_set_thread_count(1, &err), MR_OK);
}

/* No row chooses expert 2, whose pointers are NULL: reading it would crash. */
static void experts_that_no_row_chose_are_not_read(void **state)
{
    (void)state;
    const struct shape shape = {.hidden = 32,
                                .ffn = 16,
                                .experts = 5,
                                .top_k = 2,
                                .normalize = true,
                                .activation = MR_CPU_SILU_MUL};
    struct fixture fixture = fixture_create(&shape, 20);
    for (uint32_t row = 0; row < 20; row++)
        fixture.logits[row * 5 + 2] = -50.0f;
    mr_cpu_linear_destroy(fixture.gate_up[2]);
    mr_cpu_linear_destroy(fixture.down[2]);
    fixture.gate_up[2] = fixture.down[2] = NULL;
    check_rows(&fixture);
    float none[1] = {1.0f};
    fixture_run(&fixture, 0, 0, none); /* without rows it does nothing */
    assert_true(none[0] == 1.0f);
    fixture_destroy(&fixture);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    const struct shape shape = {.hidden = 32, .ffn = 16, .experts = 5, .top_k = 2};
    struct fixture fixture = fixture_create(&shape, 4);
    struct mr_cpu_expert_buffers buffers = make_buffers(&shape, 4);
    float out[4 * 32] = {0};
    const struct mr_cpu_expert_layer whole = fixture.layer;
    /* The activation of a zeroed layer is not a gated one. */
    expect_assert_failure(mr_cpu_experts_run(&whole, &buffers, fixture.x, fixture.logits, 4, out));
    fixture.layer.activation = MR_CPU_SILU_MUL;
    expect_assert_failure(
        mr_cpu_experts_run(&fixture.layer, &buffers, fixture.x, fixture.logits, 5, out));
    fixture.layer.routing.top_k = 3;
    expect_assert_failure(
        mr_cpu_experts_run(&fixture.layer, &buffers, fixture.x, fixture.logits, 4, out));
    const struct mr_cpu_routing routing = {.expert_count = 2, .top_k = 3};
    uint32_t ids[3];
    expect_assert_failure(mr_cpu_route(&routing, fixture.logits, 1, ids, out));
    free(buffers.memory);
    fixture_destroy(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_matches_the_definition),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_batch),
        cmocka_unit_test(experts_that_no_row_chose_are_not_read),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
