#include "codec/tokenizer_files/tokenizer_settings.h"

#include "tests/unit/codec/tokenizer_files/tokenizer_cases.h"

static struct mr_tokenizer_parts make_parts(void)
{
    const struct mr_text texts[] = {{"a", 1}, {"<s>", 3}, {"</s>", 4}};
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    assert_int_equal(mr_vocab_create(&parts.vocab, texts, 3, NULL), MR_OK);
    return parts;
}

static struct mr_tokenizer_settings open_settings(const char *config, const char *special_map,
                                                  const char *added)
{
    struct mr_tokenizer_files files = {text_of(config), text_of(special_map), text_of(added)};
    struct mr_tokenizer_settings settings;
    assert_int_equal(mr_tokenizer_settings_open(&settings, &files, NULL), MR_OK);
    return settings;
}

static void names_and_flags_are_read(void **state)
{
    (void)state;
    struct mr_tokenizer_parts parts = make_parts();
    struct mr_tokenizer_settings settings =
        open_settings("{\"bos_token\":{\"content\":\"<s>\"},\"pad_token\":\"?\",\"legacy\":true}",
                      "{\"eos_token\":\"</s>\",\"bos_token\":\"a\"}", "");
    assert_int_equal(mr_tokenizer_settings_token(&settings, &parts, "bos_token"), 1);
    assert_int_equal(mr_tokenizer_settings_token(&settings, &parts, "eos_token"), 2);
    assert_int_equal(mr_tokenizer_settings_token(&settings, &parts, "pad_token"), MR_TOKEN_NONE);
    assert_int_equal(mr_tokenizer_settings_token(&settings, &parts, "unk_token"), MR_TOKEN_NONE);
    assert_true(mr_tokenizer_settings_flag(&settings, "legacy", false));
    assert_true(mr_tokenizer_settings_flag(&settings, "bos_token", true));
    assert_false(mr_tokenizer_settings_flag(&settings, "other", false));
    mr_tokenizer_settings_close(&settings);
    mr_tokenizer_parts_drop(&parts);
}

static void tokens_are_added_and_marked(void **state)
{
    (void)state;
    struct mr_tokenizer_parts parts = make_parts();
    struct mr_tokenizer_settings settings = open_settings(
        "{\"added_tokens_decoder\":{\"3\":{\"content\":\"<x>\",\"lstrip\":true},"
        "\"1\":{\"content\":\"<s>\",\"special\":true}}}",
        "{\"eos_token\":\"</s>\",\"additional_special_tokens\":[\"<y>\",{\"content\":\"none\"}]}",
        "{\"<y>\":4,\"<x>\":9}");
    assert_int_equal(mr_tokenizer_settings_add_tokens(&settings, &parts, NULL), MR_OK);
    assert_int_equal(parts.added_count, 4);
    assert_true(parts.added[0].id == 3 && parts.added[0].lstrip && parts.added[0].normalized);
    assert_true(parts.added[1].id == 1 && parts.added[1].special && !parts.added[1].normalized);
    assert_true(parts.added[2].id == 4 && parts.added[2].special);
    assert_true(parts.added[3].id == 2 && parts.added[3].special);
    mr_tokenizer_settings_close(&settings);
    mr_tokenizer_parts_drop(&parts);
}

static void a_bad_file_is_named(void **state)
{
    (void)state;
    struct mr_tokenizer_settings settings;
    struct mr_error err;
    struct mr_tokenizer_files files = {{"{}", 2}, {"{", 1}, {"", 0}};
    assert_int_equal(mr_tokenizer_settings_open(&settings, &files, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "special_tokens_map.json"));
    assert_null(settings.config);
    static const char *const bad[] = {
        "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
        "{\"added_tokens_decoder\":{\"99999999999999999999\":{\"content\":\"y\"}}}",
        "{\"added_tokens_decoder\":{\"1\":{}}}",
    };
    struct mr_tokenizer_parts parts = make_parts();
    for (size_t i = 0; i < 3; i++) {
        settings = open_settings(bad[i], "", "");
        assert_int_equal(mr_tokenizer_settings_add_tokens(&settings, &parts, &err), MR_BAD_FILE);
        assert_non_null(strstr(err.detail, "added_tokens_decoder"));
        mr_tokenizer_settings_close(&settings);
    }
    settings = open_settings("", "", "{\"y\":-1}");
    assert_int_equal(mr_tokenizer_settings_add_tokens(&settings, &parts, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "added_tokens.json"));
    mr_tokenizer_settings_close(&settings);
    mr_tokenizer_parts_drop(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_flags_are_read),
        cmocka_unit_test(tokens_are_added_and_marked),
        cmocka_unit_test(a_bad_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
