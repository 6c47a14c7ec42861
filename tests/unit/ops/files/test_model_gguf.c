#include "ops/files/model_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/real_model.h"

#include <math.h>

static void a_gguf_file_fills_a_source(void **state)
{
    (void)state;
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    if (mr_model_gguf_read(&source, real_model_path(), &err) != MR_OK) fail_msg("%s", err.detail);
    assert_string_equal(source.name, "Smollm2 135M 8k Lc100K Mix1 Ep2");
    assert_true(source.gguf_names);
    assert_string_equal(source.file_type, "Q4_1");
    assert_int_equal(source.config.layer_count, 30);
    assert_int_equal(source.config.eos_count, 1);
    assert_int_equal(source.config.eos_ids[0], 2);
    assert_int_equal(source.tensors->count, 272);
    assert_int_equal(source.special.of[MR_EOS_TEXT].length, 10);
    assert_true(source.chat_template.length > 300);
    assert_true(isnan(source.defaults.temperature));
    mr_model_source_close_weights(&source);
    assert_null(source.tensors);
    assert_int_equal(memcmp(source.chat_template.bytes, "{% for", 6),
                     0); /* valid without the file */
    mr_model_source_close(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gguf_file_fills_a_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
