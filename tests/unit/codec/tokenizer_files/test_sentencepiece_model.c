#include "codec/tokenizer_files/sentencepiece_model.h"

#include "codec/tokenizer/token_ids.h"
#include "tests/unit/codec/tokenizer_files/sentencepiece_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_model_is_read_with_the_values_of_absent_fields(void **state)
{
    (void)state;
    struct model_bytes bytes = small_model(2);
    struct mr_sentencepiece_model model;
    assert_int_equal(mr_sentencepiece_model_parse(&model, text_of_model(&bytes), NULL), MR_OK);
    assert_int_equal(model.token_count, 8);
    assert_true(mr_text_is(model.tokens[6], "ab") && model.scores[6] == -2.0f);
    assert_int_equal(model.kinds[2], MR_TOKEN_CONTROL);
    assert_int_equal(model.kinds[4], MR_TOKEN_NORMAL);
    assert_true(model.unk_id == 0 && model.bos_id == 1 && model.eos_id == 2);
    assert_int_equal(model.type, MR_SENTENCEPIECE_BPE);
    assert_true(model.add_dummy_prefix && model.escape_spaces && !model.remove_extra_spaces);
    assert_true(!model.byte_fallback && !model.space_as_suffix && model.charsmap.length == 0);
    mr_sentencepiece_model_drop(&model);
    mr_sentencepiece_model_drop(&model);
}

static void unknown_fields_are_skipped(void **state)
{
    (void)state;
    struct model_bytes bytes = small_model(1);
    add_bytes(&bytes, "\x78\x96\x01", 3); /* field 15, a varint of two bytes */
    add_bytes(&bytes,
              "\x7d"
              "1234",
              5); /* 32 bits */
    add_bytes(&bytes,
              "\x79"
              "12345678",
              9);                            /* 64 bits */
    add_bytes(&bytes, "\xfa\x01\x03xyz", 6); /* field 31, bytes */
    struct mr_sentencepiece_model model;
    assert_int_equal(mr_sentencepiece_model_parse(&model, text_of_model(&bytes), NULL), MR_OK);
    assert_int_equal(model.type, MR_SENTENCEPIECE_UNIGRAM);
    mr_sentencepiece_model_drop(&model);
}

static void assert_bad(const struct model_bytes *bytes, const char *why)
{
    struct mr_sentencepiece_model model;
    struct mr_error err = {.detail = ""};
    assert_int_equal(mr_sentencepiece_model_parse(&model, text_of_model(bytes), &err), MR_BAD_FILE);
    if (!strstr(err.detail, why)) fail_msg("%s, not: %s", err.detail, why);
    assert_null(model.tokens);
}

/* Each copy is a block of exactly its length, so that AddressSanitizer sees a read past its end. */
static void a_model_cut_anywhere_is_damaged_or_lacks_its_last_fields(void **state)
{
    (void)state;
    struct model_bytes bytes = small_model(1);
    uint32_t tokens_before = 0;
    for (size_t length = 1; length < bytes.length; length++) {
        char *copy = malloc(length);
        assert_non_null(copy);
        memcpy(copy, bytes.bytes, length);
        struct mr_sentencepiece_model model;
        enum mr_status status =
            mr_sentencepiece_model_parse(&model, (struct mr_text){copy, length}, NULL);
        assert_true(status == MR_OK || status == MR_BAD_FILE);
        if (status == MR_OK) {
            assert_in_range(model.token_count, tokens_before, 8);
            tokens_before = model.token_count;
            mr_sentencepiece_model_drop(&model);
        }
        free(copy);
    }
    assert_int_equal(tokens_before, 8);
}

static void a_damaged_model_is_a_bad_file(void **state)
{
    (void)state;
    struct model_bytes empty = {.length = 0}, bytes = small_model(1);
    assert_bad(&empty, "not a SentencePiece model");
    add_bytes(&bytes, "\x0b", 1); /* a group */
    assert_bad(&bytes, "damaged");
    bytes = small_model(1);
    add_bytes(&bytes, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11); /* 2^64 - 1 bytes */
    assert_bad(&bytes, "damaged");
    bytes = small_model(1);
    add_bytes(&bytes, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12); /* a long varint */
    assert_bad(&bytes, "damaged");
    bytes = small_model(1);
    add_token(&bytes, "<u>", 0, 2);
    assert_bad(&bytes, "both unknown");
    bytes = small_model(1);
    add_token(&bytes, "", 0, 1);
    assert_bad(&bytes, "empty");
    bytes = small_model(1);
    add_token(&bytes, "x", 0, 7);
    assert_bad(&bytes, "type 7");
    bytes = small_model(1);
    add_token(&bytes, "x", (float)(1e308 * 10), 1);
    assert_bad(&bytes, "score");
    bytes = (struct model_bytes){.length = 0};
    add_token(&bytes, "x", 0, 1);
    assert_bad(&bytes, "no unknown token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_read_with_the_values_of_absent_fields),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(a_model_cut_anywhere_is_damaged_or_lacks_its_last_fields),
        cmocka_unit_test(a_damaged_model_is_a_bad_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
