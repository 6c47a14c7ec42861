#include "ops/files/model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    assert_non_null(strstr(err.detail, "CMakeLists.txt: "));
    assert_int_equal(mr_model_files_read(&source, "tests", &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "tests: the folder has neither config.json nor a .gguf"));
    assert_null(source.tokenizer);
}

/* Reads a path that is not a model; the error has all of these texts. */
static void rejected(const char *path, const char *first, const char *second)
{
    struct mr_model_source source;
    struct mr_error err = {0};
    assert_int_equal(mr_model_files_read(&source, path, &err), MR_BAD_FILE);
    if (!strstr(err.detail, path) || !strstr(err.detail, first) || !strstr(err.detail, second))
        fail_msg("\"%s\" without \"%s\", \"%s\" or \"%s\"", err.detail, path, first, second);
    mr_model_source_close(&source);
}

static void a_hub_name_needs_a_local_path(void **state)
{
    (void)state;
    rejected("organization/Some-Model-8B", "a local path is needed", "Hub names");
    struct mr_model_source source;
    struct mr_error err = {0};
    static const char *const others[] = {"./organization/model", "/organization/model",
                                         "organization/model.gguf", "models/of/ours", "model"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(mr_model_files_read(&source, others[i], &err), MR_BAD_FILE);
        assert_null(strstr(err.detail, "Hub"));
        assert_non_null(strstr(err.detail, others[i]));
    }
}

static void link_model(const struct scratch *scratch, const char *name)
{
    char link[192];
    snprintf(link, sizeof link, "%s/%s", scratch->folder, name);
    char *model = realpath(real_model_path(), NULL);
    assert_non_null(model);
    assert_int_equal(symlink(model, link), 0);
    free(model);
}

static void a_folder_with_one_gguf_file_is_that_model(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_model_source source;
    struct mr_error err = {0};
    scratch_open(&scratch);
    link_model(&scratch, "model.Q4_1.gguf");
    scratch_write(&scratch, "mmproj-model.gguf", "a projector", 11);
    scratch_write(&scratch, "part-00002-of-00002.gguf", "a later part", 12);
    scratch_write(&scratch, "config.json", "{}", 2);
    if (mr_model_files_read(&source, scratch.folder, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_non_null(source.gguf);
    mr_model_source_close(&source);
    scratch_write(&scratch, "model.Q8_0.gguf", "x", 1);
    rejected(scratch.folder, "2 GGUF models", "model.Q4_1.gguf, model.Q8_0.gguf");
    scratch_close(&scratch);
}

/* As a container has it: a volume that is one file. */
static void a_gguf_file_needs_no_suffix(void **state)
{
    (void)state;
    struct scratch scratch;
    struct mr_model_source source;
    struct mr_error err = {0};
    char path[192];
    scratch_open(&scratch);
    link_model(&scratch, "model");
    snprintf(path, sizeof path, "%s/model", scratch.folder);
    if (mr_model_files_read(&source, path, &err) != MR_OK) fail_msg("%s", err.detail);
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

static void an_error_names_the_file_and_the_way_out(void **state)
{
    (void)state;
    struct scratch scratch;
    static const char bad_config[] = "{\"model_type\":\"deepseek_v32\"}";
    tiny_folder_open(&scratch, "grouped_tied");
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", scratch.folder);
    rejected(path, "a file of a model folder", "use the folder");
    rejected(scratch_write(&scratch, "model.bin", "x", 1), ".bin files are not read", ".gguf");
    rejected(scratch_write(&scratch, "m.gguf", "GGUFxxxx", 8), "versions 2 and 3", "GGUF");
    scratch_write(&scratch, "config.json", bad_config, sizeof bad_config - 1);
    rejected(scratch.folder, "its sparse attention", "DeepSeek V3 is");
    tiny_folder_remove(&scratch, "model.safetensors");
    tiny_folder_remove(&scratch, "m.gguf");
    rejected(scratch.folder, "its sparse attention", "refused");
    tiny_folder_remove(&scratch, "config.json");
    rejected(scratch.folder, "neither config.json", ".gguf");
    scratch_close(&scratch);
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
        cmocka_unit_test(a_hub_name_needs_a_local_path),
        cmocka_unit_test(a_folder_with_one_gguf_file_is_that_model),
        cmocka_unit_test(a_gguf_file_needs_no_suffix),
        cmocka_unit_test(an_error_names_the_file_and_the_way_out),
        cmocka_unit_test(a_tokenizer_larger_than_the_model_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
