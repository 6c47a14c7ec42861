#include "ops/model/model_adapter.h"

#include "ops/files/model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BASE    "tests/golden/models/llama3_rope_sharded"
#define OTHER   "tests/golden/models/qwen2"
#define ADAPTER "tests/golden/adapters/llama3_rope_sharded/a00"

static struct mr_model *open_model(const char *path, bool adapters)
{
    const struct mr_model_options options = {.path = path,
                                             .device = "cpu",
                                             .thread_count = 1,
                                             .dtype = MR_DTYPE_F32,
                                             .adapters = adapters,
                                             .rows_max = 32,
                                             .sequences_max = 4,
                                             .kv_bytes = 1 << 20};
    struct mr_model *model;
    assert_int_equal(mr_model_open(&model, &options, NULL), MR_OK);
    return model;
}

static void an_adapter_of_another_base_is_refused(void **state)
{
    (void)state;
    struct mr_adapter_files files;
    struct mr_adapter_weights *weights;
    struct mr_error err = {0};
    struct mr_model *model = open_model(OTHER, true);
    assert_int_equal(mr_adapter_files_open(&files, ADAPTER, &err), MR_OK);
    assert_int_equal(mr_model_adapter_create(model, &files, &weights, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, ADAPTER ": "));
    mr_adapter_files_close(&files);
    mr_model_close(model);
}

static void a_model_without_adapters_takes_none(void **state)
{
    (void)state;
    struct mr_adapter_files files;
    struct mr_adapter_weights *weights;
    struct mr_model *model = open_model(BASE, false);
    assert_int_equal(mr_adapter_files_open(&files, ADAPTER, NULL), MR_OK);
    assert_int_equal(mr_model_adapter_create(model, &files, &weights, NULL), MR_BAD_CONFIG);
    mr_adapter_files_close(&files);
    mr_model_close(model);
}

static void files_are_checked_without_opening_the_model(void **state)
{
    (void)state;
    struct mr_model_source source;
    struct mr_adapter_files files;
    struct mr_adapter_weights *checked, *made;
    struct mr_model *model = open_model(BASE, true);
    assert_int_equal(mr_model_files_read(&source, BASE, NULL), MR_OK);
    assert_int_equal(mr_adapter_files_open(&files, ADAPTER, NULL), MR_OK);
    assert_int_equal(mr_model_adapter_check(&source, &files, &checked, NULL), MR_OK);
    assert_int_equal(mr_model_adapter_create(model, &files, &made, NULL), MR_OK);
    assert_int_equal(checked->parameter_count, made->parameter_count);
    assert_int_equal(checked->layer_count, made->layer_count);
    assert_int_equal(checked->bytes, 0);
    assert_true(made->bytes > 0);
    mr_adapter_weights_destroy(checked);
    mr_adapter_weights_destroy(made);
    mr_adapter_files_close(&files);
    mr_model_source_close(&source);
    mr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_of_another_base_is_refused),
        cmocka_unit_test(a_model_without_adapters_takes_none),
        cmocka_unit_test(files_are_checked_without_opening_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
