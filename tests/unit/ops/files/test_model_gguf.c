#include "ops/files/model_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/real_model.h"
#include "tests/unit/ops/scratch.h"

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
    assert_int_equal(source.config.eos_count,
                     3); /* <|endoftext|> and <reponame>, which no key names */
    assert_int_equal(source.config.eos_ids[0], 2);
    assert_int_equal(source.config.eos_ids[1], 0);
    assert_int_equal(source.config.eos_ids[2], 4);
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

/* Copies a golden file with one more key. It takes 64 bytes, so that tensors stay aligned. */
static void copy_with_tool_template(struct bytes *out, const char *path)
{
    static unsigned char bytes[60000];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_true(size > 24 && size < sizeof bytes);
    bytes[16]++; /* the number of keys */
    put(out, bytes, 24);
    put_text(out, "tokenizer.chat_template.tool_use");
    put_u32(out, 8); /* a text */
    put_text(out, "{{- tools }}");
    put(out, bytes + 24, size - 24);
}

static void a_template_for_tools_is_read(void **state)
{
    (void)state;
    static struct bytes bytes;
    struct scratch scratch;
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    scratch_open(&scratch);
    copy_with_tool_template(&bytes, "tests/golden/gguf/phi4_partial_rotary.gguf");
    const char *path = scratch_write(&scratch, "model.gguf", bytes.data, bytes.size);
    if (mr_model_gguf_read(&source, path, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(source.tool_template.length, 12);
    assert_memory_equal(source.tool_template.bytes, "{{- tools }}", 12);
    assert_true(source.chat_template.length > 0);
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_for_tools_is_read),
        cmocka_unit_test(a_gguf_file_fills_a_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
