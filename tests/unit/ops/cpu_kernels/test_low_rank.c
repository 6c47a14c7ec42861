/* Compares the changes of every level with products in double, and checks that the bits of a row
 * depend only on the row and its adapter. */
#include "ops/cpu_kernels/linear.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 9, IN = 38, OUT = 70, RANK = 21, FIRST_ZERO = 40 };

struct change {
    struct mr_cpu_low_rank *low_rank;
    float a[RANK * IN], b[OUT * RANK];
};

/* The rows of B from FIRST_ZERO on use only the ranks from 5 on, as those of a second part. */
static void make(struct change *change, enum mr_cpu_level level, uint64_t seed, bool bf16)
{
    for (uint32_t i = 0; i < RANK * IN; i++)
        change->a[i] = number_from_bf16(number_to_bf16(number_next(&seed)));
    for (uint32_t i = 0; i < OUT * RANK; i++)
        change->b[i] = i / RANK >= FIRST_ZERO && i % RANK < 5 ? 0.0f : number_next(&seed);
    const struct mr_cpu_low_rank_spec spec = {.rank = RANK,
                                              .in_size = IN,
                                              .out_size = OUT,
                                              .a = change->a,
                                              .b = change->b,
                                              .bf16 = bf16,
                                              .level = level};
    assert_int_equal(mr_cpu_low_rank_create(&change->low_rank, &spec, NULL), MR_OK);
    assert_int_equal(mr_cpu_low_rank_width(change->low_rank), 32);
}

static void zero_row(void *context, uint32_t row, float *out)
{
    (void)row;
    memset(out, 0, *(const uint32_t *)context * sizeof *out);
}

static struct mr_cpu_linear *zero_layer(enum mr_cpu_level level, bool bf16)
{
    static uint32_t in_size = IN;
    const struct mr_cpu_linear_spec spec = {.out_size = OUT,
                                            .in_size = IN,
                                            .bf16 = bf16,
                                            .source = zero_row,
                                            .source_context = &in_size,
                                            .scale = 0.5f,
                                            .level = level};
    struct mr_cpu_linear *linear;
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, NULL), MR_OK);
    return linear;
}

/* x as numbers of a layer: bf16 or floats. */
static const void *stored(const float *x, uint32_t count, bool bf16, uint16_t *memory)
{
    for (uint32_t i = 0; bf16 && i < count; i++)
        memory[i] = number_to_bf16(x[i]);
    return bf16 ? (const void *)memory : x;
}

static double expected(const struct change *change, const float *x, uint32_t column)
{
    double sum = 0;
    for (uint32_t i = 0; i < RANK; i++) {
        double inner = 0;
        for (uint32_t k = 0; k < IN; k++)
            inner += (double)change->a[i * IN + k] * (double)x[k];
        sum += (double)change->b[column * RANK + i] * inner;
    }
    return 0.5 * sum;
}

static void check(enum mr_cpu_level level, bool bf16)
{
    static struct change one, two;
    static float x[ROWS * IN], out[ROWS * OUT], alone[OUT], shrunk[ROWS * 32];
    static uint16_t memory[ROWS * IN];
    uint64_t seed = 5;
    make(&one, level, 1, bf16);
    make(&two, level, 2, bf16);
    struct mr_cpu_linear *linear = zero_layer(level, bf16);
    for (uint32_t i = 0; i < ROWS * IN; i++)
        x[i] = number_from_bf16(number_to_bf16(number_next(&seed)));
    struct mr_cpu_low_rank *layers[ROWS] = {one.low_rank, one.low_rank, NULL,
                                            two.low_rank, one.low_rank, NULL,
                                            two.low_rank, two.low_rank, two.low_rank};
    const unsigned char *numbers = stored(x, ROWS * IN, bf16, memory);
    struct mr_cpu_linear_call call = {
        .x = numbers, .rows = ROWS, .out = out, .adapted = {layers, shrunk, 0}};
    mr_cpu_linear_call(linear, &call);
    for (uint32_t row = 0; row < ROWS; row++) {
        const struct change *change = layers[row] == one.low_rank ? &one : &two;
        for (uint32_t i = 0; i < OUT; i++) {
            const double wanted = layers[row] ? expected(change, x + row * IN, i) : 0.0;
            assert_true(fabs((double)out[row * OUT + i] - wanted) < 2e-5 * (1 + fabs(wanted)));
        }
        call = (struct mr_cpu_linear_call){.x = numbers + row * IN * (bf16 ? 2u : 4u),
                                           .rows = 1,
                                           .out = alone,
                                           .adapted = {&layers[row], shrunk, 0}};
        mr_cpu_linear_call(linear, &call);
        assert_memory_equal(alone, out + row * OUT, sizeof alone);
    }
    mr_cpu_linear_destroy(linear);
    mr_cpu_low_rank_destroy(one.low_rank);
    mr_cpu_low_rank_destroy(two.low_rank);
}

static void a_row_gets_the_change_of_its_adapter(void **state)
{
    (void)state;
    EACH_LEVEL (level) {
        check(level, false);
        check(level, true);
    }
}

static void rows_without_changes_cost_nothing(void **state)
{
    (void)state;
    struct mr_cpu_low_rank *layers[2] = {NULL, NULL};
    struct mr_cpu_adapted adapted = {layers, NULL, 7};
    mr_cpu_shrink(&adapted, &(struct mr_cpu_shrink_rows){.rows = 2});
    assert_null(adapted.layers);
    assert_int_equal(adapted.stride, 0);
}

static void a_table_changes_the_embedding_of_a_token(void **state)
{
    (void)state;
    enum { TOKENS = 7 };
    float a[TOKENS * 3], b[OUT * 3], out[OUT];
    uint64_t seed = 8;
    struct mr_cpu_low_rank *table;
    for (uint32_t i = 0; i < TOKENS * 3; i++)
        a[i] = number_next(&seed);
    for (uint32_t i = 0; i < OUT * 3; i++)
        b[i] = number_next(&seed);
    const struct mr_cpu_low_rank_spec spec = {
        .rank = 3, .in_size = TOKENS, .out_size = OUT, .a = a, .b = b, .table = true};
    assert_int_equal(mr_cpu_low_rank_create(&table, &spec, NULL), MR_OK);
    for (uint32_t i = 0; i < OUT; i++)
        out[i] = 2.0f;
    mr_cpu_low_rank_embed(table, 5, out);
    for (uint32_t i = 0; i < OUT; i++) {
        float wanted = 2.0f;
        for (uint32_t k = 0; k < 3; k++)
            wanted += b[i * 3 + k] * a[5 * 3 + k];
        assert_true(fabsf(out[i] - wanted) < 1e-5f);
    }
    mr_cpu_low_rank_destroy(table);
    mr_cpu_low_rank_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_gets_the_change_of_its_adapter),
        cmocka_unit_test(rows_without_changes_cost_nothing),
        cmocka_unit_test(a_table_changes_the_embedding_of_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
