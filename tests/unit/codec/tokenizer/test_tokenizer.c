#include "codec/tokenizer/tokenizer.h"

#include "tests/unit/codec/tokenizer_files/tokenizer_cases.h"

static void a_byte_level_file_encodes_and_decodes(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load(PLAIN, "");
    assert_ids(tokenizer, "ab ab a", plain, "3 2 3 4");
    assert_ids(tokenizer, "\u00e9", plain, "6 7");
    assert_ids(tokenizer, "", plain, "");
    assert_int_equal(mr_tokenizer_vocab_size(tokenizer), 8);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 4, true).bytes, " a", 2);
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 7, true).bytes, "\xa9", 1);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 7, true).length, 1);
    assert_int_equal(mr_tokenizer_first_space(tokenizer), MR_FIRST_SPACE_KEPT);
    mr_tokenizer_destroy(tokenizer);
    mr_tokenizer_destroy(NULL);
}

static void special_tokens_are_parsed_and_added_as_options_say(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load(PLAIN, "{\"bos_token\":\"<s>\",\"eos_token\":null}");
    assert_ids(tokenizer, "a<s>b", plain, "0 5 1");
    assert_ids(tokenizer, "ab", framed, "5 3");
    assert_ids(tokenizer, "", framed, "5");
    assert_ids(tokenizer, "a<s>b", unread, "0 1");
    assert_int_equal(mr_tokenizer_bos_id(tokenizer), 5);
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), MR_TOKEN_NONE);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 5, true).length, 0);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 5, false).length, 3);
    mr_tokenizer_destroy(tokenizer);
}

static void added_tokens_are_found_and_decoded(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer =
        load(FILE_OF(ADDED(",{\"id\":8,\"content\":\"new one\"}"), "null", BYTE_LEVEL, "null",
                     BYTE_LEVEL, MODEL("")),
             "{\"eos_token\":{\"content\":\"new one\"}}");
    assert_int_equal(mr_tokenizer_eos_id(tokenizer), 8);
    assert_ids(tokenizer, "anew oneb", plain, "0 8 1");
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 8, true).bytes, "new one", 7);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, 9, false).length, 0);
    assert_int_equal(mr_tokenizer_bytes(tokenizer, MR_TOKEN_NONE, false).length, 0);
    mr_tokenizer_destroy(tokenizer);
}

static void barred_ranges_hold_no_special_token(void **state)
{
    (void)state;
    const struct mr_text_range range = {1, 5};
    const struct mr_encode_options barred = {
        .parse_special = true, .barred = &range, .barred_count = 1};
    struct mr_tokenizer *tokenizer = load(PLAIN, "");
    assert_ids(tokenizer, "a<s>b<s>a", barred, "0 1 5 0");
    assert_ids(tokenizer, "<s>ab", barred, "3");
    mr_tokenizer_destroy(tokenizer);
    /* tokens that are searched for in the normalized text, which is longer than the original */
    static const char normalizer[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"aab\"}";
    char *file;
    static const char added[] =
        "[{\"id\":5,\"content\":\"<s>\",\"special\":true,\"normalized\":true}]";
    assert_true(asprintf(&file, FILE_OF("%s", "%s", BYTE_LEVEL, "null", BYTE_LEVEL, MODEL("")),
                         added, normalizer) > 0);
    tokenizer = load(file, "");
    assert_ids(tokenizer, "a<s>b<s>a", plain, "0 5 0 3 5 0");
    assert_ids(tokenizer, "a<s>b<s>a", barred, "0 0 3 5 0");
    mr_tokenizer_destroy(tokenizer);
    free(file);
}

/* A Unigram model of a tokenizer.json scores control tokens 0, better than any text. */
static void a_unigram_model_makes_no_control_token_of_barred_text(void **state)
{
    (void)state;
    static const char file[] =
        FILE_OF("[{\"id\":0,\"content\":\"<s>\",\"special\":true},"
                "{\"id\":5,\"content\":\"<|u|>\"}]",
                "null", "null", "null", BYTE_LEVEL,
                "{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"<s>\",0],[\"?\",0],[\"<\",-3],"
                "[\"s\",-3],[\">\",-3],[\"<|u|>\",0],[\"|u\",-3],[\"|\",-3]]}");
    const struct mr_text_range range = {0, 8};
    const struct mr_encode_options barred = {
        .parse_special = true, .barred = &range, .barred_count = 1};
    struct mr_tokenizer *tokenizer = load(file, "");
    assert_ids(tokenizer, "<s><|u|>", plain, "0 5");
    assert_ids(tokenizer, "<s><|u|><s>", barred, "2 3 4 2 6 7 4 0");
    assert_ids(tokenizer, "<s>", unread, "2 3 4");
    mr_tokenizer_destroy(tokenizer);
}

static void normalized_tokens_are_found_in_normalized_text(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer =
        load(FILE_OF(ADDED(",{\"id\":8,\"content\":\"B!\",\"normalized\":true},"
                           "{\"id\":9,\"content\":\"C!\"}"),
                     "{\"type\":\"Lowercase\"}", BYTE_LEVEL, "null", BYTE_LEVEL, MODEL("")),
             "");
    assert_ids(tokenizer, "AB!a", plain, "0 8 0");
    assert_ids(tokenizer, "ab!", plain, "0 8");
    assert_ids(tokenizer, "aC!", plain, "0 9");
    assert_ids(tokenizer, "ac!", plain, "0");
    assert_memory_equal(mr_tokenizer_bytes(tokenizer, 8, true).bytes, "b!", 2);
    mr_tokenizer_destroy(tokenizer);
}

static void text_is_checked_and_counted(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = load(PLAIN, "");
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    uint32_t ids[3] = {77, 77, 77};
    struct mr_id_list three = {.ids = ids, .max = 3}, two = {.ids = ids, .max = 2}, none = {0};
    struct mr_id_list enough = {.ids = ids, .max = 3, .enough = 3};
    struct mr_error err;
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of("a\xff"), plain, &three, &err),
                     MR_MALFORMED);
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of("aaaa<s>"), plain, &two, &err),
                     MR_PROMPT_TOO_LONG);
    assert_int_equal(two.count, 5);
    assert_true(ids[0] == 0 && ids[1] == 0 && ids[2] == 77);
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, text_of("ab"), framed, &none, NULL),
                     MR_PROMPT_TOO_LONG);
    assert_int_equal(none.count, 2);
    assert_int_equal(
        mr_tokenizer_encode(tokenizer, scratch, text_of("aaaa<s>aaaa"), plain, &enough, &err),
        MR_PROMPT_TOO_LONG);
    assert_int_equal(enough.count, 5); /* the text after <s> is not encoded */
    mr_tokenizer_scratch_destroy(scratch);
    mr_tokenizer_scratch_destroy(NULL);
    mr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_level_file_encodes_and_decodes),
        cmocka_unit_test(special_tokens_are_parsed_and_added_as_options_say),
        cmocka_unit_test(added_tokens_are_found_and_decoded),
        cmocka_unit_test(barred_ranges_hold_no_special_token),
        cmocka_unit_test(a_unigram_model_makes_no_control_token_of_barred_text),
        cmocka_unit_test(normalized_tokens_are_found_in_normalized_text),
        cmocka_unit_test(text_is_checked_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
