#include "ops/torch/torch_backend.h"

#include "ops/cpu/cpu_backend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../numbers.h"
#include "load_torch.h"

enum { ROWS = 5, WIDTH = 32, OUT = 48, VOCAB = 24 };

static const struct mr_device cpu = {.kind = MR_DEVICE_CPU};

static void read_row(void *context, uint32_t row, float *out)
{
    uint64_t seed = *(const uint64_t *)context + row;
    for (uint32_t i = 0; i < WIDTH; i++)
        out[i] = number_next(&seed);
}

/* Embeds tokens, norms them, and runs a gated layer and the table as an output layer. */
static void run(const struct mr_backend *backend, enum mr_epilogue epilogue, float *logits)
{
    static const uint32_t tokens[ROWS] = {3, 1, 4, 1, 5}, kept[] = {1, 4}, block = 0;
    const struct mr_step_sequence one = {
        .row_begin = 0, .row_count = ROWS, .context_tokens = 0, .blocks = {&block, NULL}};
    const struct mr_step_sequence last[] = {
        {.row_begin = 0, .row_count = 1, .context_tokens = 1, .blocks = {&block, NULL}},
        {.row_begin = 1, .row_count = 1, .context_tokens = 4, .blocks = {&block, NULL}}};
    struct mr_step_spec spec = {.rows_max = ROWS, .sequences_max = 2};
    spec.widths[MR_RESIDUAL] = spec.widths[MR_NORMED] = spec.widths[MR_GATED] = WIDTH;
    spec.widths[MR_LOGITS] = VOCAB;
    uint64_t seeds[] = {7, 1000};
    float weight[WIDTH], bias[VOCAB];
    for (uint32_t i = 0; i < WIDTH; i++)
        weight[i] = 0.5f + (float)i / WIDTH;
    for (uint32_t i = 0; i < VOCAB; i++)
        bias[i] = (float)i / 8;
    struct mr_linear_spec table = {.out_size = VOCAB,
                                   .in_size = WIDTH,
                                   .source = read_row,
                                   .source_context = &seeds[0],
                                   .bias = bias,
                                   .scale = 0.5f,
                                   .table = true};
    struct mr_linear_spec gated = {.out_size = 2 * WIDTH,
                                   .in_size = WIDTH,
                                   .source = read_row,
                                   .source_context = &seeds[1],
                                   .gated = true};
    struct mr_compute *compute;
    struct mr_vector *vector;
    struct mr_linear *head, *gate_up;
    struct mr_step *step;
    assert_int_equal(backend->open(&compute, cpu, MR_NUMBER_F32, NULL), MR_OK);
    assert_int_equal(backend->vector_create(compute, &vector, weight, WIDTH, NULL), MR_OK);
    assert_int_equal(backend->linear_create(compute, &head, &table, NULL), MR_OK);
    assert_int_equal(backend->linear_create(compute, &gate_up, &gated, NULL), MR_OK);
    assert_int_equal(backend->step_create(compute, &step, &spec, NULL), MR_OK);
    const struct mr_norm norm = {vector, NULL, 1e-5f, false};
    backend->stage(step, tokens, ROWS, &one, 1, NULL);
    backend->embed(step, head, 3.0f);
    backend->norm(step, &norm, ROWS);
    backend->keep(step, kept, last, 2);
    backend->linear(step, gate_up, MR_NORMED, 2, epilogue, MR_GATED);
    backend->linear(step, head, MR_GATED, 2, MR_STORE, MR_LOGITS);
    backend->softcap(step, 4.0f, 2);
    assert_int_equal(backend->finish(step, NULL), MR_OK);
    memcpy(logits, backend->logits(step, 0, NULL), VOCAB * sizeof(float));
    memcpy(logits + VOCAB, backend->logits(step, 1, NULL), VOCAB * sizeof(float));
    backend->step_destroy(step);
    backend->linear_destroy(gate_up);
    backend->linear_destroy(head);
    backend->vector_destroy(vector);
    backend->close(compute);
}

static void operations_agree_with_the_kernels(void **state)
{
    (void)state;
    static const enum mr_epilogue gates[] = {MR_SILU_MUL, MR_GELU_MUL, MR_GELU_TANH_MUL,
                                             MR_SWIGLU_OAI_MUL};
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
        float ours[2 * VOCAB], theirs[2 * VOCAB];
        run(&mr_cpu_backend, gates[i], ours);
        run(torch_backend(), gates[i], theirs);
        for (uint32_t at = 0; at < 2 * VOCAB; at++)
            assert_true(fabsf(ours[at] - theirs[at]) < 1e-4f);
    }
}

#define LARGE (6u << 20) /* two rows of so many numbers are loaded at once */

/* Row r: r + 1 at number r. */
static void read_large_row(void *context, uint32_t row, float *out)
{
    (void)context;
    memset(out, 0, LARGE * sizeof *out);
    out[row] = (float)(row + 1);
}

static void a_large_weight_is_loaded_in_parts(void **state)
{
    (void)state;
    static const uint32_t token = 3, block = 0;
    const struct mr_backend *b = torch_backend();
    const struct mr_step_sequence one = {
        .row_begin = 0, .row_count = 1, .context_tokens = 0, .blocks = {&block, NULL}};
    struct mr_step_spec spec = {.rows_max = 1, .sequences_max = 1};
    spec.widths[MR_RESIDUAL] = spec.widths[MR_NORMED] = LARGE;
    spec.widths[MR_LOGITS] = 5;
    const struct mr_linear_spec table = {
        .out_size = 5, .in_size = LARGE, .source = read_large_row, .table = true};
    struct mr_compute *compute;
    struct mr_linear *linear;
    struct mr_step *step;
    assert_int_equal(b->open(&compute, cpu, MR_NUMBER_F16, NULL), MR_OK);
    assert_int_equal(b->free_bytes(compute), 0);
    assert_int_equal(b->linear_create(compute, &linear, &table, NULL), MR_OK);
    assert_int_equal(b->step_create(compute, &step, &spec, NULL), MR_OK);
    b->stage(step, &token, 1, &one, 1, NULL);
    b->embed(step, linear, 1.0f);
    b->norm(step, NULL, 1);
    b->linear(step, linear, MR_NORMED, 1, MR_STORE, MR_LOGITS);
    assert_int_equal(b->finish(step, NULL), MR_OK);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(b->logits(step, 0, NULL)[i] == (i == token ? 16.0f : 0.0f));
    b->step_destroy(step);
    b->linear_destroy(linear);
    b->close(compute);
}

/* Blocks of 2 layers with 1 head of 16 numbers. */
#define BLOCK_FLOATS ((size_t)2 * 2 * 16 * MR_BLOCK_TOKENS)

static void a_block_goes_out_and_in(void **state)
{
    (void)state;
    static float in[BLOCK_FLOATS], out[BLOCK_FLOATS];
    static unsigned char packed[BLOCK_FLOATS * 2];
    const struct mr_backend *b = torch_backend();
    const struct mr_kv_spec spec = {.layer_count = 2,
                                    .kv_head_count = 1,
                                    .head_dim = 16,
                                    .block_count = 3,
                                    .number = MR_NUMBER_F32};
    struct mr_compute *compute;
    struct mr_kv *kv;
    uint64_t seed = 5;
    for (size_t i = 0; i < BLOCK_FLOATS; i++)
        in[i] = number_next(&seed);
    assert_int_equal(b->open(&compute, cpu, MR_NUMBER_F32, NULL), MR_OK);
    assert_int_equal(b->kv_create(compute, &kv, &spec, NULL), MR_OK);
    assert_int_equal(b->kv_block_bytes(&spec), sizeof in);
    assert_int_equal(b->kv_stored_bytes(kv, MR_BLOCK_TOKENS, false), sizeof in);
    assert_true(b->kv_stored_bytes(kv, MR_BLOCK_TOKENS, true) <= sizeof packed);
    struct mr_kv_span one = {1, 0, MR_BLOCK_TOKENS, false}, two = {2, 0, MR_BLOCK_TOKENS, false};
    b->kv_import(kv, &one, in);
    b->kv_copy(kv, 1, 2, MR_BLOCK_TOKENS);
    assert_true(b->kv_export(kv, &two, out));
    assert_memory_equal(in, out, sizeof in);
    assert_memory_equal(b->kv_bytes_of(kv, 2), in, sizeof in);
    one.int8 = true;
    assert_true(b->kv_export(kv, &one, packed));
    two.int8 = true;
    b->kv_import(kv, &two, packed);
    two.int8 = false;
    assert_true(b->kv_export(kv, &two, out));
    for (size_t i = 0; i < BLOCK_FLOATS; i++)
        assert_true(fabsf(in[i] - out[i]) <= 0.51f * 1.01f / 127.0f);
    in[3] = INFINITY;
    one.int8 = false;
    b->kv_import(kv, &one, in);
    one.int8 = true;
    assert_false(b->kv_export(kv, &one, packed));
    b->kv_destroy(kv);
    b->close(compute);
}

/* After a partial copy the values of the later tokens are zero, even if they were not before. */
static void values_after_a_copy_are_zero(void **state)
{
    (void)state;
    static float in[BLOCK_FLOATS], out[BLOCK_FLOATS];
    const struct mr_backend *b = torch_backend();
    const struct mr_kv_spec spec = {.layer_count = 2,
                                    .kv_head_count = 1,
                                    .head_dim = 16,
                                    .block_count = 2,
                                    .number = MR_NUMBER_F32};
    struct mr_compute *compute;
    struct mr_kv *kv;
    for (size_t i = 0; i < BLOCK_FLOATS; i++)
        in[i] = NAN;
    assert_int_equal(b->open(&compute, cpu, MR_NUMBER_F32, NULL), MR_OK);
    assert_int_equal(b->kv_create(compute, &kv, &spec, NULL), MR_OK);
    const struct mr_kv_span one = {1, 0, MR_BLOCK_TOKENS, false};
    b->kv_import(kv, &one, in);
    b->kv_copy(kv, 0, 1, 3);
    assert_true(b->kv_export(kv, &one, out));
    const size_t half = BLOCK_FLOATS / 4;
    assert_true(isnan(out[half - 1])); /* a key: its score is masked */
    for (size_t i = half; i < 2 * half; i++)
        assert_true(out[i] == 0.0f);
    b->kv_destroy(kv);
    b->close(compute);
}

/* A norm with too few weights: LibTorch throws. */
static void an_exception_names_the_operation_and_ends_the_step(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {1}, block = 0;
    const struct mr_step_sequence one = {
        .row_begin = 0, .row_count = 1, .context_tokens = 0, .blocks = {&block, NULL}};
    const struct mr_backend *b = torch_backend();
    const float weight[WIDTH - 1] = {0};
    uint64_t seed = 7;
    struct mr_linear_spec spec = {.out_size = VOCAB,
                                  .in_size = WIDTH,
                                  .source = read_row,
                                  .source_context = &seed,
                                  .table = true};
    struct mr_step_spec sizes = {.rows_max = 1, .sequences_max = 1};
    struct mr_compute *compute;
    struct mr_vector *vector;
    struct mr_linear *table;
    struct mr_step *step;
    struct mr_error err = {0};
    assert_int_equal(b->open(&compute, cpu, MR_NUMBER_F32, NULL), MR_OK);
    assert_int_equal(b->vector_create(compute, &vector, weight, WIDTH - 1, NULL), MR_OK);
    assert_int_equal(b->linear_create(compute, &table, &spec, NULL), MR_OK);
    assert_int_equal(b->step_create(compute, &step, &sizes, NULL), MR_OK);
    const struct mr_norm norm = {vector, NULL, 1e-5f, false};
    b->stage(step, tokens, 1, &one, 1, NULL);
    b->embed(step, table, 1.0f);
    b->norm(step, &norm, 1);
    b->linear(step, table, MR_NORMED, 1, MR_STORE, MR_LOGITS);
    assert_int_equal(b->finish(step, &err), MR_BACKEND);
    assert_int_equal(err.status, MR_BACKEND);
    assert_memory_equal(err.detail, "norm: LibTorch: ", 16);
    assert_null(strchr(err.detail, '\n'));
    b->step_destroy(step);
    b->linear_destroy(table);
    b->vector_destroy(vector);
    b->close(compute);
}

static void a_missing_gpu_is_one_line(void **state)
{
    (void)state;
    struct mr_compute *compute;
    struct mr_error err = {0};
    const struct mr_device ninth = {.kind = MR_DEVICE_CUDA,
                                    .index = 9}; /* no machine has ten GPUs */
    assert_int_equal(torch_backend()->open(&compute, ninth, MR_NUMBER_BF16, &err), MR_BAD_CONFIG);
    assert_null(compute);
    assert_non_null(strstr(err.detail, "--device cuda"));
    assert_null(strchr(err.detail, '\n'));
}

static void a_layout_is_not_that_of_the_kernels(void **state)
{
    (void)state;
    assert_string_not_equal(torch_backend()->kv_layout, mr_cpu_backend.kv_layout);
    assert_string_not_equal(torch_backend()->kv_layout_sliding, mr_cpu_backend.kv_layout_sliding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_agree_with_the_kernels),
        cmocka_unit_test(a_large_weight_is_loaded_in_parts),
        cmocka_unit_test(a_block_goes_out_and_in),
        cmocka_unit_test(values_after_a_copy_are_zero),
        cmocka_unit_test(an_exception_names_the_operation_and_ends_the_step),
        cmocka_unit_test(a_missing_gpu_is_one_line),
        cmocka_unit_test(a_layout_is_not_that_of_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
