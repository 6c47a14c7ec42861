#include "batching/sequence/token_text.h"

#include "small_vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const tokens[] = {"a", "\xe2\x82", "long token", "\xac!", "\xff\xfe", "<end>"};

static void assert_text(const struct mr_token_text *texts, uint32_t id, const char *expected)
{
    struct mr_text text = mr_token_text_of(texts, id);
    assert_int_equal(text.length, strlen(expected));
    assert_memory_equal(text.bytes, expected, text.length);
}

static void every_token_has_a_valid_text(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = small_vocab_create(tokens, 6, 1);
    assert_non_null(tokenizer);
    struct mr_token_text *texts = NULL;
    assert_int_equal(mr_token_text_create(&texts, tokenizer, NULL), MR_OK);
    assert_text(texts, 0, "a");
    assert_text(texts, 1, "\xef\xbf\xbd");
    assert_text(texts, 2, "long token");
    assert_text(texts, 3, "\xef\xbf\xbd!");
    assert_text(texts, 4, "\xef\xbf\xbd\xef\xbf\xbd");
    assert_text(texts, 5, "<end>");
    assert_text(texts, 6, "");
    assert_text(texts, MR_TOKEN_NONE, "");
    mr_token_text_destroy(texts);
    mr_tokenizer_destroy(tokenizer);
}

static void a_token_that_is_a_part_of_a_character_has_its_bytes(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = small_vocab_create(tokens, 6, 1);
    struct mr_token_text *texts = NULL;
    assert_int_equal(mr_token_text_create(&texts, tokenizer, NULL), MR_OK);
    struct mr_token_logprob logprob = mr_token_text_logprob(texts, 1, -0.5f);
    assert_int_equal(logprob.token_id, 1);
    assert_true(logprob.logprob == -0.5f);
    assert_int_equal(logprob.text.length, 3);
    assert_int_equal(logprob.bytes.length, 2);
    assert_memory_equal(logprob.bytes.bytes, "\xe2\x82", 2);
    assert_null(mr_token_text_logprob(texts, 0, 0).bytes.bytes);
    mr_token_text_destroy(texts);
    mr_tokenizer_destroy(tokenizer);
}

static void the_bound_covers_the_longest_token_behind_an_unfinished_character(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = small_vocab_create(tokens, 6, 1);
    struct mr_token_text *texts = NULL;
    assert_int_equal(mr_token_text_create(&texts, tokenizer, NULL), MR_OK);
    assert_true(mr_token_text_bytes_max(texts) >= strlen("\xef\xbf\xbd") + strlen("long token"));
    mr_token_text_destroy(texts);
    mr_token_text_destroy(NULL);
    mr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_has_a_valid_text),
        cmocka_unit_test(a_token_that_is_a_part_of_a_character_has_its_bytes),
        cmocka_unit_test(the_bound_covers_the_longest_token_behind_an_unfinished_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
