#include "worker/engine/engine_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void an_unknown_dtype_names_the_choices(void **state)
{
    (void)state;
    struct mr_config config = {
        .model = "none.gguf", .device = "cpu", .dtype = "float", .max_sequences = 1};
    struct mr_model *model;
    struct mr_error err;
    assert_int_equal(mr_engine_setup_model(&config, NULL, NULL, &model, &err), MR_BAD_CONFIG);
    assert_null(model);
    assert_non_null(strstr(err.detail, "bf16"));
}

static void a_missing_model_is_a_bad_file(void **state)
{
    (void)state;
    struct mr_config config = {.model = "none.gguf",
                               .device = "cpu",
                               .dtype = "auto",
                               .max_sequences = 1,
                               .step_tokens = 16,
                               .kv_memory_bytes = 1 << 20};
    struct mr_model *model;
    struct mr_error err;
    assert_int_equal(mr_engine_setup_model(&config, NULL, NULL, &model, &err), MR_BAD_FILE);
    assert_null(model);
}

static void the_operator_can_only_lower_the_context(void **state)
{
    (void)state;
    struct mr_model_info info = {.context_tokens = 2048, .block_count = 1024};
    struct mr_config config = {0};
    assert_int_equal(mr_engine_setup_context(&config, &info), 2048);
    config.context_tokens = 512;
    assert_int_equal(mr_engine_setup_context(&config, &info), 512);
    config.context_tokens = 4096;
    assert_int_equal(mr_engine_setup_context(&config, &info), 2048);
    info.block_count = 2;
    assert_int_equal(mr_engine_setup_context(&config, &info), 2 * MR_BLOCK_TOKENS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_dtype_names_the_choices),
        cmocka_unit_test(a_missing_model_is_a_bad_file),
        cmocka_unit_test(the_operator_can_only_lower_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
