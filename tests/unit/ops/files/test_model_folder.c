#include "ops/files/model_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ops/tiny_folder.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_text(struct scratch *scratch, const char *name, const char *text)
{
    scratch_write(scratch, name, text, strlen(text));
}

static struct mr_model_source read_folder(const struct scratch *scratch)
{
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    if (mr_model_folder_read(&source, scratch->folder, &err) != MR_OK) fail_msg("%s", err.detail);
    return source;
}

static void rejected(const struct scratch *scratch, const char *because)
{
    struct mr_model_source source = {0};
    struct mr_error err = {0};
    assert_int_equal(mr_model_folder_read(&source, scratch->folder, &err), MR_BAD_FILE);
    mr_model_source_close(&source);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static void assert_text(struct mr_text text, const char *expected)
{
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.bytes, expected, text.length);
}

static void every_file_of_the_folder_is_read(void **state)
{
    (void)state;
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    write_text(&scratch, "generation_config.json",
               "{\"temperature\":0.5,\"top_k\":40,\"top_p\":0.75,\"eos_token_id\":[7,262]}");
    struct mr_model_source source = read_folder(&scratch);
    assert_int_equal(source.config.layer_count, 2);
    assert_int_equal(mr_tokenizer_vocab_size(source.tokenizer), 263);
    assert_non_null(mr_tensor_table_find(source.tensors, "model.norm.weight"));
    assert_false(source.gguf_names);
    assert_true(source.defaults.temperature == 0.5f);
    assert_true(source.defaults.top_p == 0.75f);
    assert_int_equal(source.defaults.top_k, 40);
    assert_int_equal(source.config.eos_count, 2);
    assert_int_equal(source.config.eos_ids[0], 262);
    assert_int_equal(source.config.eos_ids[1], 7);
    assert_text(source.special.of[MR_BOS_TEXT], "<s>");
    assert_text(source.special.of[MR_EOS_TEXT], "</s>");
    assert_text(source.chat_template, "{% for m in messages %}{{ m['content'] }}{% endfor %}");
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

static void a_template_file_takes_precedence_over_the_tokenizer_config(void **state)
{
    (void)state;
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    write_text(&scratch, "chat_template.jinja", "from the file");
    write_text(&scratch, "chat_template.json", "{\"chat_template\":\"unused\"}");
    struct mr_model_source source = read_folder(&scratch);
    assert_text(source.chat_template, "from the file");
    assert_text(source.tool_template, "");
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

static void a_template_for_tools_may_be_a_file_of_its_own(void **state)
{
    (void)state;
    struct scratch scratch;
    char folder[300];
    tiny_folder_open(&scratch, "grouped_tied");
    write_text(&scratch, "chat_template.jinja", "from the file");
    snprintf(folder, sizeof folder, "%s/additional_chat_templates", scratch.folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_text(&scratch, "additional_chat_templates/tool_use.jinja", "tools");
    struct mr_model_source source = read_folder(&scratch);
    assert_text(source.chat_template, "from the file");
    assert_text(source.tool_template, "tools");
    mr_model_source_close(&source);
    tiny_folder_remove(&scratch, "additional_chat_templates/tool_use.jinja");
    assert_int_equal(rmdir(folder), 0);
    scratch_close(&scratch);
}

/* As in folders of models that also read pictures. */
static void the_template_of_a_processor_is_used_when_the_tokenizer_has_none(void **state)
{
    (void)state;
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    write_text(&scratch, "tokenizer_config.json", "{\"bos_token\":\"<s>\"}");
    write_text(&scratch, "chat_template.json", "{\"chat_template\":\"of the processor\"}");
    struct mr_model_source source = read_folder(&scratch);
    assert_text(source.chat_template, "of the processor");
    assert_text(source.tool_template, "");
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

static void of_several_templates_the_default_and_that_for_tools_are_used(void **state)
{
    (void)state;
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    write_text(&scratch, "tokenizer_config.json",
               "{\"model_max_length\":1000000000000000019884624838656,\"chat_template\":["
               "{\"name\":\"rag\",\"template\":\"r\"},{\"name\":\"default\",\"template\":\"d\"},"
               "{\"name\":\"tool_use\",\"template\":\"t\"}]}");
    struct mr_model_source source = read_folder(&scratch);
    assert_text(source.chat_template, "d");
    assert_text(source.tool_template, "t");
    assert_text(source.special.of[MR_BOS_TEXT], "");
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

static void special_tokens_come_from_the_tokenizer_config_or_the_map(void **state)
{
    (void)state;
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    write_text(&scratch, "tokenizer_config.json",
               "{\"unk_token\":{\"content\":\"<u>\"},\"pad_token\":null}");
    write_text(
        &scratch, "special_tokens_map.json",
        "{\"unk_token\":\"<x>\",\"pad_token\":\"<p>\",\"mask_token\":{\"content\":\"<m>\"}}");
    struct mr_model_source source = read_folder(&scratch);
    assert_text(source.special.of[MR_UNK_TEXT], "<u>");
    assert_text(source.special.of[MR_PAD_TEXT], "<p>");
    assert_text(source.special.of[MR_MASK_TEXT], "<m>");
    assert_text(source.special.of[MR_SEP_TEXT], "");
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

/* The other end token, 262, is the one in config.json. */
static void the_tokenizers_end_token_ends_an_answer(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        uint32_t count;
    } cases[] = {{"{\"eos_token\":\"<s>\"}", 2},
                 {"{\"eos_token\":{\"content\":\"<s>\"}}", 2},
                 {"{\"eos_token\":\"</s>\"}", 1},
                 {"{\"eos_token\":\"<no token>\"}", 1},
                 {"{\"eos_token\":null}", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scratch scratch;
        tiny_folder_open(&scratch, "grouped_tied");
        write_text(&scratch, "tokenizer_config.json", cases[i].config);
        struct mr_model_source source = read_folder(&scratch);
        assert_int_equal(source.config.eos_count, cases[i].count);
        assert_int_equal(source.config.eos_ids[0], 262);
        if (cases[i].count > 1) assert_int_equal(source.config.eos_ids[1], 261);
        mr_model_source_close(&source);
        scratch_close(&scratch);
    }
}

static void optional_files_may_be_absent(void **state)
{
    (void)state;
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    tiny_folder_remove(&scratch, "generation_config.json");
    tiny_folder_remove(&scratch, "tokenizer_config.json");
    struct mr_model_source source = read_folder(&scratch);
    assert_true(isnan(source.defaults.temperature));
    assert_true(source.defaults.top_p == 0 && source.defaults.repetition_penalty == 0);
    assert_int_equal(source.defaults.top_k, 0);
    assert_text(source.chat_template, "");
    mr_model_source_close(&source);
    scratch_close(&scratch);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct scratch scratch;
        tiny_folder_open(&scratch, "grouped_tied");
        tiny_folder_remove(&scratch, names[i]);
        rejected(&scratch, names[i]);
        scratch_close(&scratch);
    }
}

static void a_broken_file_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct scratch scratch;
        tiny_folder_open(&scratch, "grouped_tied");
        write_text(&scratch, names[i], "{\"a\":");
        rejected(&scratch, names[i]);
        scratch_close(&scratch);
    }
}

static void copy_file(const struct scratch *scratch, const char *from, const char *name)
{
    char to[512], bytes[65536];
    FILE *source = fopen(from, "rb");
    assert_non_null(source);
    size_t length = fread(bytes, 1, sizeof bytes, source);
    fclose(source);
    snprintf(to, sizeof to, "%s/%s", scratch->folder, name);
    FILE *target = fopen(to, "wb");
    assert_int_equal(fwrite(bytes, 1, length, target), length);
    assert_int_equal(fclose(target), 0);
}

static void other_files_take_the_place_of_tokenizer_json(void **state)
{
    (void)state;
    static const struct {
        const char *from, *name;
        uint32_t tokens;
    } cases[] = {
        {"tests/golden/tokenizer/sentencepiece_bpe_bytes.model", "tokenizer.model", 700},
        {"tests/golden/tokenizer/tekken_small.json", "tekken.json", 890},
    };
    struct scratch scratch;
    tiny_folder_open(&scratch, "grouped_tied");
    tiny_folder_remove(&scratch, "tokenizer.json");
    tiny_folder_remove(&scratch, "tokenizer_config.json");
    /* a folder with both uses tekken.json */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        copy_file(&scratch, cases[i].from, cases[i].name);
        struct mr_model_source source = read_folder(&scratch);
        assert_int_equal(mr_tokenizer_vocab_size(source.tokenizer), cases[i].tokens);
        assert_text(source.special.of[MR_BOS_TEXT], "<s>");
        assert_text(source.special.of[MR_EOS_TEXT], "</s>");
        mr_model_source_close(&source);
    }
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_of_the_folder_is_read),
        cmocka_unit_test(a_template_file_takes_precedence_over_the_tokenizer_config),
        cmocka_unit_test(a_template_for_tools_may_be_a_file_of_its_own),
        cmocka_unit_test(the_template_of_a_processor_is_used_when_the_tokenizer_has_none),
        cmocka_unit_test(of_several_templates_the_default_and_that_for_tools_are_used),
        cmocka_unit_test(special_tokens_come_from_the_tokenizer_config_or_the_map),
        cmocka_unit_test(the_tokenizers_end_token_ends_an_answer),
        cmocka_unit_test(optional_files_may_be_absent),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(other_files_take_the_place_of_tokenizer_json),
        cmocka_unit_test(a_broken_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
