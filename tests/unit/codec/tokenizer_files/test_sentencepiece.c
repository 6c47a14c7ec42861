#include "codec/tokenizer_files/sentencepiece.h"

#include "tests/unit/codec/tokenizer_files/sentencepiece_bytes.h"
#include "tests/unit/codec/tokenizer_files/tokenizer_cases.h"

static struct mr_tokenizer *load_model(char type, const char *config, const char *added)
{
    struct model_bytes bytes = small_model(type);
    struct mr_tokenizer_files files = {text_of(config), {"", 0}, text_of(added)};
    struct mr_tokenizer *tokenizer;
    struct mr_error err = {.detail = ""};
    if (mr_tokenizer_from_sentencepiece(&tokenizer, text_of_model(&bytes), &files, &err) != MR_OK)
        fail_msg("%s", err.detail);
    return tokenizer;
}

static void bpe_and_unigram_models_encode(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load_model(2, "", "");
    assert_ids(tokenizer, "ab a  b", plain, "7 5 7 3 3 5"); /* U+2581 a is made before ab */
    assert_ids(tokenizer, "xya", plain, "3 0 4");
    assert_int_equal(mr_tokenizer_first_space(tokenizer), MR_FIRST_SPACE_OF_TEXT);
    mr_tokenizer_destroy(tokenizer);
    tokenizer = load_model(1, "", "");
    assert_ids(tokenizer, "ab a  b", plain, "3 6 7 3 3 5");
    assert_ids(tokenizer, "xya", plain, "3 0 4");
    mr_tokenizer_destroy(tokenizer);
}

static void control_tokens_are_cut_out_and_frame_the_text(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load_model(2, "", "");
    assert_int_equal(mr_tokenizer_bos_id(tokenizer), 1);
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), 2);
    assert_ids(tokenizer, "a", framed, "1 7");
    assert_ids(tokenizer, "a<s>a", plain, "7 1 4"); /* a space only in front of the whole text */
    assert_ids(tokenizer, "<s>", unread, "3 0");
    mr_tokenizer_destroy(tokenizer);
    tokenizer = load_model(2, "{\"add_bos_token\":false,\"add_eos_token\":true}", "");
    assert_ids(tokenizer, "a", framed, "7 2");
    mr_tokenizer_destroy(tokenizer);
    tokenizer = load_model(2, "{\"legacy\":true}", "");
    assert_ids(tokenizer, "a<s>a", plain, "7 1 7");
    mr_tokenizer_destroy(tokenizer);
}

static void other_files_add_tokens(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load_model(
        1,
        "{\"eos_token\":\"<end>\",\"added_tokens_decoder\":{\"8\":{\"content\":\"<end>\","
        "\"special\":true}}}",
        "{\"<role>\":9}");
    assert_int_equal(mr_tokenizer_vocab_size(tokenizer), 10);
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), 8);
    assert_ids(tokenizer, "a<end><role>", plain, "7 8 9");
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 8, true).length, 0);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 9, true).length, 6);
    mr_tokenizer_destroy(tokenizer);
}

static void bad_models_are_bad_files(void **state)
{
    (void)state;
    struct model_bytes bytes = small_model(3);
    const struct mr_tokenizer_files none = {{"", 0}, {"", 0}, {"", 0}};
    struct mr_tokenizer *tokenizer;
    struct mr_error err;
    assert_int_equal(
        mr_tokenizer_from_sentencepiece(&tokenizer, text_of_model(&bytes), &none, &err),
        MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "tokenizer.model: a SentencePiece model of words"));
    bytes = small_model(1);
    add_token(&bytes, "<unk>", 0, 1);
    assert_int_equal(
        mr_tokenizer_from_sentencepiece(&tokenizer, text_of_model(&bytes), &none, &err),
        MR_BAD_FILE);
    bytes = small_model(1);
    add_message(&bytes, 3, "\x12\x01x", 3);
    assert_int_equal(
        mr_tokenizer_from_sentencepiece(&tokenizer, text_of_model(&bytes), &none, &err),
        MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "character map"));
    assert_null(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_and_unigram_models_encode),
        cmocka_unit_test(control_tokens_are_cut_out_and_frame_the_text),
        cmocka_unit_test(other_files_add_tokens),
        cmocka_unit_test(bad_models_are_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
