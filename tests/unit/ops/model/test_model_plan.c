#include "ops/model/model_plan.h"

#include "ops/files/model_files.h"
#include "tests/unit/ops/real_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MEBIBYTE ((uint64_t)1 << 20)

/* The plan of a model equals the open model: dense, with a sliding group, with fused tensors, with
 * padded heads. */
static void a_plan_is_what_the_open_model_has(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "tests/golden/models/grouped_tied", "tests/golden/models/mistral_slides",
        "tests/golden/models/phi3", "tests/golden/models/llama_head_dim_24"};
    for (size_t i = 0; i < 3 * sizeof paths / sizeof *paths; i++) {
        struct mr_error err = {0};
        struct mr_model_source source;
        struct mr_model_plan plan;
        struct mr_model *model;
        struct mr_model_options options = {.path = paths[i / 3],
                                           .device = "cpu",
                                           .dtype = i % 3 == 1 ? MR_DTYPE_F32 : MR_DTYPE_BF16,
                                           .kv_int8 = i % 3 == 2,
                                           .thread_count = 1,
                                           .kv_bytes = 8 * MEBIBYTE,
                                           .rows_max = 32,
                                           .sequences_max = 2};
        if (mr_model_files_read(&source, options.path, &err) != MR_OK ||
            mr_model_plan_make(&plan, &source, &options, &err) != MR_OK ||
            mr_model_open(&model, &options, &err) != MR_OK)
            fail_msg("%s: %s", options.path, err.detail);
        const struct mr_model_info *info = mr_model_info(model);
        assert_int_equal(plan.parameter_count, info->parameter_count);
        assert_int_equal(plan.kv_bytes_per_token, info->kv_bytes_per_token);
        assert_int_equal(plan.kv_pool_bytes, info->kv_pool_bytes);
        assert_int_equal(plan.pool_tokens, (uint64_t)info->block_count * MR_BLOCK_TOKENS);
        assert_true(plan.context_tokens <= info->context_tokens);
        assert_true(plan.weight_bytes >= plan.parameter_count * (i % 3 == 1 ? 4 : 2));
        mr_model_close(model);
        mr_model_source_close(&source);
    }
}

static void the_longest_sequence_is_what_the_pool_holds(void **state)
{
    (void)state;
    struct mr_model_source source;
    struct mr_model_plan plan;
    struct mr_model_options options = {.device = "cpu", .kv_bytes = 1, .rows_max = 32};
    assert_int_equal(mr_model_files_read(&source, "tests/golden/models/qwen2", NULL), MR_OK);
    assert_int_equal(mr_model_plan_make(&plan, &source, &options, NULL), MR_OK);
    assert_int_equal(plan.context_tokens, MR_BLOCK_TOKENS);
    options.kv_bytes = 64 * MEBIBYTE;
    assert_int_equal(mr_model_plan_make(&plan, &source, &options, NULL), MR_OK);
    assert_int_equal(plan.context_tokens, source.config.context_tokens);
    /* Half of the memory that remains after the weights. */
    options.memory_bytes = plan.weight_bytes + 2 * MEBIBYTE;
    assert_int_equal(mr_model_plan_make(&plan, &source, &options, NULL), MR_OK);
    assert_true(plan.kv_pool_bytes <= MEBIBYTE && plan.kv_pool_bytes > 0);
    source.config.layer_count++;
    assert_int_equal(mr_model_plan_make(&plan, &source, &options, NULL), MR_BAD_FILE);
    assert_int_equal(plan.context_tokens, 0);
    mr_model_source_close(&source);
}

static void it_names_the_numbers_that_the_weights_are_computed_in(void **state)
{
    (void)state;
    static const char folder[] = "tests/golden/models/qwen2";
    static const char awq[] = "tests/golden/quantized/awq";
    const char *file = real_model_path(); /* Q4_1 */
    static const char stored[] = "the file's own 4 to 8 bits";
    const struct {
        const char *path, *backend, *name;
        enum mr_dtype dtype;
        double bytes_min, bytes_max; /* of a weight */
    } cases[] = {
        {folder, "cpu", "bf16", MR_DTYPE_AUTO, 1.95, 2.1},
        {folder, "cpu", "fp32", MR_DTYPE_F32, 3.95, 4},
        {folder, "cpu", "int8", MR_DTYPE_INT8, 1, 1.5},
        {folder, "cpu", "int4", MR_DTYPE_INT4, 0.7, 1.2},
        {folder, "torch", "fp16", MR_DTYPE_F16, 1.95, 2.1},
        {awq, "cpu", stored, MR_DTYPE_AUTO, 0.6, 1.6},
        {file, "cpu", stored, MR_DTYPE_AUTO, 0.6, 0.8},
        {file, "cpu", "bf16", MR_DTYPE_BF16, 2, 2.01},
        {file, "torch", "bf16", MR_DTYPE_AUTO, 2, 2.01},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_error err = {0};
        struct mr_model_source source;
        struct mr_model_plan plan;
        const struct mr_model_options options = {.device = "cpu",
                                                 .backend = cases[i].backend,
                                                 .dtype = cases[i].dtype,
                                                 .kv_bytes = MEBIBYTE,
                                                 .rows_max = 32};
        if (mr_model_files_read(&source, cases[i].path, &err) != MR_OK ||
            mr_model_plan_make(&plan, &source, &options, &err) != MR_OK)
            fail_msg("%s: %s", cases[i].path, err.detail);
        assert_string_equal(plan.dtype, cases[i].name);
        const double bytes = (double)plan.weight_bytes / (double)plan.parameter_count;
        if (bytes < cases[i].bytes_min || bytes > cases[i].bytes_max)
            fail_msg("%s, %s: %g bytes a weight", cases[i].path, cases[i].name, bytes);
        mr_model_source_close(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_names_the_numbers_that_the_weights_are_computed_in),
        cmocka_unit_test(a_plan_is_what_the_open_model_has),
        cmocka_unit_test(the_longest_sequence_is_what_the_pool_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
