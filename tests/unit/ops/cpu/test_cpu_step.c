#include "ops/cpu/cpu_step.h"

#include "ops/cpu/cpu_backend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 3, WIDTH = 16, VOCAB = 5 };

struct fixture {
    struct mr_compute *compute;
    struct mr_step *step;
    struct mr_linear *table; /* row r has the numbers r + column / 16 */
};

static void read_row(void *context, uint32_t row, float *out)
{
    (void)context;
    for (uint32_t i = 0; i < WIDTH; i++)
        out[i] = (float)row + (float)i / 16.0f;
}

static void open_fixture(struct fixture *fixture)
{
    struct mr_step_spec spec = {.rows_max = ROWS, .sequences_max = ROWS};
    struct mr_linear_spec table = {.out_size = VOCAB, .in_size = WIDTH, .source = read_row};
    spec.widths[MR_RESIDUAL] = spec.widths[MR_NORMED] = WIDTH;
    spec.widths[MR_LOGITS] = VOCAB;
    assert_int_equal(
        mr_cpu_backend.open(&fixture->compute, (struct mr_device){0}, MR_NUMBER_F32, NULL), MR_OK);
    assert_int_equal(mr_cpu_step_create(fixture->compute, &fixture->step, &spec, NULL), MR_OK);
    assert_int_equal(mr_cpu_backend.linear_create(fixture->compute, &fixture->table, &table, NULL),
                     MR_OK);
    assert_true(mr_cpu_step_bytes(fixture->step) > 2 * ROWS * WIDTH * sizeof(float));
}

static void close_fixture(struct fixture *fixture)
{
    mr_cpu_backend.linear_destroy(fixture->table);
    mr_cpu_step_destroy(fixture->step);
    mr_cpu_backend.close(fixture->compute);
}

/* The product of two rows of the table. */
static float product(uint32_t a, uint32_t b)
{
    float x[WIDTH], y[WIDTH], sum = 0;
    read_row(NULL, a, x);
    read_row(NULL, b, y);
    for (uint32_t i = 0; i < WIDTH; i++)
        sum += x[i] * y[i];
    return sum;
}

static void kept_rows_move_to_the_front(void **state)
{
    (void)state;
    static const uint32_t tokens[ROWS] = {4, 1, 3}, kept[] = {0, 2}, blocks[] = {0};
    const struct mr_step_sequence all[] = {
        {.row_begin = 0, .row_count = 1, .context_tokens = 0, .blocks = {blocks, NULL}},
        {.row_begin = 1, .row_count = 2, .context_tokens = 0, .blocks = {blocks, NULL}}};
    const struct mr_step_sequence last[] = {
        {.row_begin = 0, .row_count = 1, .context_tokens = 0, .blocks = {blocks, NULL}},
        {.row_begin = 1, .row_count = 1, .context_tokens = 1, .blocks = {blocks, NULL}}};
    struct fixture fixture;
    open_fixture(&fixture);
    mr_cpu_step_stage(fixture.step, tokens, ROWS, all, 2, NULL);
    mr_cpu_step_embed(fixture.step, fixture.table, 0.5f);
    mr_cpu_step_keep(fixture.step, kept, last, 2);
    mr_cpu_step_norm(fixture.step, NULL, 2);
    mr_cpu_step_linear(fixture.step, fixture.table, MR_NORMED, 2, MR_STORE, MR_LOGITS);
    assert_int_equal(mr_cpu_step_finish(fixture.step, NULL), MR_OK);
    for (uint32_t i = 0; i < VOCAB; i++) {
        assert_true(fabsf(mr_cpu_step_logits(fixture.step, 0, NULL)[i] - product(4, i) / 2) <
                    1e-4f);
        assert_true(fabsf(mr_cpu_step_logits(fixture.step, 1, NULL)[i] - product(3, i) / 2) <
                    1e-4f);
    }
    mr_cpu_step_softcap(fixture.step, 2.0f, 2);
    assert_true(fabsf(mr_cpu_step_logits(fixture.step, 1, NULL)[4] - 2.0f) < 1e-4f);
    close_fixture(&fixture);
}

static void more_rows_than_planned_are_misuse(void **state)
{
    (void)state;
    static const uint32_t tokens[ROWS + 1] = {0};
    struct fixture fixture;
    open_fixture(&fixture);
    expect_assert_failure(mr_cpu_step_stage(fixture.step, tokens, ROWS + 1, NULL, 0, NULL));
    close_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_rows_move_to_the_front),
        cmocka_unit_test(more_rows_than_planned_are_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
