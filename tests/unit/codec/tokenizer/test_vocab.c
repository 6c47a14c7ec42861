#include "codec/tokenizer/vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static void ids_and_texts_are_found_by_each_other(void **state)
{
    (void)state;
    const struct mr_text texts[] = {{"a", 1}, {"bc", 2}, {"", 0}, {NULL, 0}, {"a\0b", 3}};
    struct mr_vocab *vocab;
    assert_int_equal(mr_vocab_create(&vocab, texts, 5, NULL), MR_OK);
    assert_int_equal(mr_vocab_size(vocab), 5);
    assert_int_equal(mr_vocab_count(vocab), 4);
    assert_int_equal(mr_vocab_find(vocab, text_of("bc")), 1);
    assert_int_equal(mr_vocab_find(vocab, text_of("")), 2);
    assert_int_equal(mr_vocab_find(vocab, (struct mr_text){"a\0b", 3}), 4);
    assert_int_equal(mr_vocab_find(vocab, text_of("b")), MR_TOKEN_NONE);
    assert_int_equal(mr_vocab_text(vocab, 4).length, 3);
    assert_null(mr_vocab_text(vocab, 3).bytes);
    assert_null(mr_vocab_text(vocab, 5).bytes);
    assert_true(mr_vocab_check(vocab));
    mr_vocab_destroy(vocab);
    mr_vocab_destroy(NULL);
}

static void the_later_of_two_equal_texts_is_found(void **state)
{
    (void)state;
    const struct mr_text texts[] = {{"a", 1}, {"b", 1}, {"a", 1}};
    struct mr_vocab *vocab;
    assert_int_equal(mr_vocab_create(&vocab, texts, 3, NULL), MR_OK);
    assert_int_equal(mr_vocab_find(vocab, text_of("a")), 2);
    assert_memory_equal(mr_vocab_text(vocab, 0).bytes, "a", 1);
    assert_true(mr_vocab_check(vocab));
    mr_vocab_destroy(vocab);
}

static void many_tokens_are_all_found(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    char *block = malloc(COUNT * 8);
    struct mr_text *texts = calloc(COUNT, sizeof *texts);
    for (int i = 0; i < COUNT; i++) {
        int length = snprintf(block + i * 8, 8, "t%d", i);
        texts[i] = (struct mr_text){block + i * 8, (size_t)length};
    }
    struct mr_vocab *vocab;
    assert_int_equal(mr_vocab_create(&vocab, texts, COUNT, NULL), MR_OK);
    memset(block, 'x', COUNT * 8); /* the vocabulary has copies */
    assert_int_equal(mr_vocab_find(vocab, text_of("t49999")), 49999);
    assert_int_equal(mr_vocab_find(vocab, text_of("t50000")), MR_TOKEN_NONE);
    assert_true(mr_vocab_check(vocab));
    mr_vocab_destroy(vocab);
    free(texts);
    free(block);
}

static void an_empty_vocabulary_finds_nothing(void **state)
{
    (void)state;
    struct mr_vocab *vocab;
    assert_int_equal(mr_vocab_create(&vocab, NULL, 0, NULL), MR_OK);
    assert_int_equal(mr_vocab_find(vocab, text_of("a")), MR_TOKEN_NONE);
    assert_true(mr_vocab_check(vocab));
    mr_vocab_destroy(vocab);
}

static void too_many_tokens_are_a_bad_file(void **state)
{
    (void)state;
    struct mr_vocab *vocab;
    struct mr_error err;
    const struct mr_text texts[] = {{"", UINT32_MAX}, {"", UINT32_MAX}};
    assert_int_equal(mr_vocab_create(&vocab, texts, MR_VOCAB_TOKENS_MAX + 1, &err), MR_BAD_FILE);
    assert_int_equal(mr_vocab_create(&vocab, texts, 2, &err), MR_BAD_FILE);
    assert_null(vocab);
}

static void hashes_depend_on_length_and_bytes(void **state)
{
    (void)state;
    static const char zeros[20] = {0};
    for (size_t i = 0; i < sizeof zeros; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(mr_text_hash((struct mr_text){zeros, i}) !=
                        mr_text_hash((struct mr_text){zeros, j}));
    assert_true(mr_text_hash(text_of("abcdefghi")) != mr_text_hash(text_of("abcdefghj")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_texts_are_found_by_each_other),
        cmocka_unit_test(the_later_of_two_equal_texts_is_found),
        cmocka_unit_test(many_tokens_are_all_found),
        cmocka_unit_test(an_empty_vocabulary_finds_nothing),
        cmocka_unit_test(too_many_tokens_are_a_bad_file),
        cmocka_unit_test(hashes_depend_on_length_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
