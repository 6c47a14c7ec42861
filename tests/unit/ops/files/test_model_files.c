#include "ops/files/model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/real_model.h"
#include "tests/unit/ops/tiny_folder.h"

static void a_file_is_read_as_gguf(void **state)
{
    (void)state;
    struct mr_model_source source;
    struct mr_error err = {0};
    if (mr_model_files_read(&source, real_model_path(), &err) != MR_OK) fail_msg("%s", err.detail);
    assert_non_null(source.gguf);
    assert_string_equal(source.name, "Smollm2 135M 8k Lc100K Mix1 Ep2");
    mr_model_source_close(&source);
}

static void a_model_folder_gives_its_name_to_the_model(void **state)
{
    (void)state;
    struct mr_model_source source;
    struct mr_error err = {0};
    if (mr_model_files_read(&source, TINY_MODELS "qwen2//", &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_string_equal(source.name, "qwen2");
    mr_model_source_close(&source);
}

static void a_path_without_a_model_is_rejected(void **state)
{
    (void)state;
    struct mr_model_source source;
    struct mr_error err = {0};
    assert_int_equal(mr_model_files_read(&source, "no such model", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "no such model"));
    assert_int_equal(mr_model_files_read(&source, "CMakeLists.txt", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "GGUF"));
    assert_int_equal(mr_model_files_read(&source, "tests", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "config.json"));
    assert_null(source.tokenizer);
}

static void a_tokenizer_larger_than_the_model_is_rejected(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_model_source source;
    struct mr_error err = {0};
    static const char config[] =
        "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":48,"
        "\"num_attention_heads\":3,\"intermediate_size\":64,\"vocab_size\":262,"
        "\"max_position_embeddings\":1024}";
    tiny_folder_open(&scratch, "grouped_tied");
    tiny_folder_remove(&scratch, "generation_config.json");
    scratch_write(&scratch, "config.json", config, sizeof config - 1);
    assert_int_equal(mr_model_files_read(&source, scratch.folder, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "263 tokens, more than the model's vocabulary of 262"));
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_as_gguf),
        cmocka_unit_test(a_model_folder_gives_its_name_to_the_model),
        cmocka_unit_test(a_path_without_a_model_is_rejected),
        cmocka_unit_test(a_tokenizer_larger_than_the_model_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
