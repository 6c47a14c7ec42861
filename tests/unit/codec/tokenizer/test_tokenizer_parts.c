#include "codec/tokenizer/tokenizer_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_text texts[] = {{"a", 1}, {"b", 1}, {"ab", 2}};

static struct mr_vocab *make_vocab(void)
{
    struct mr_vocab *vocab;
    assert_int_equal(mr_vocab_create(&vocab, texts, 3, NULL), MR_OK);
    return vocab;
}

static void a_merge_has_the_ids_of_its_three_texts(void **state)
{
    (void)state;
    struct mr_vocab *vocab = make_vocab();
    struct mr_merge merge = {0};
    assert_int_equal(mr_tokenizer_resolve_merge(vocab, texts[0], texts[1], &merge, NULL), MR_OK);
    assert_int_equal(merge.left, 0);
    assert_int_equal(merge.right, 1);
    assert_int_equal(merge.result, 2);
    mr_vocab_destroy(vocab);
}

static void a_merge_outside_the_vocabulary_is_a_bad_file(void **state)
{
    (void)state;
    static const char block[1024];
    struct mr_vocab *vocab = make_vocab();
    struct mr_merge merge;
    struct mr_error err;
    struct mr_text wide = {block, sizeof block};
    assert_int_equal(mr_tokenizer_resolve_merge(vocab, texts[1], texts[0], &merge, &err),
                     MR_BAD_FILE);
    assert_int_equal(mr_tokenizer_resolve_merge(vocab, texts[0], wide, &merge, &err), MR_BAD_FILE);
    mr_vocab_destroy(vocab);
}

static void parts_are_dropped_whether_filled_or_not(void **state)
{
    (void)state;
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    mr_tokenizer_parts_drop(&parts);
    parts = (struct mr_tokenizer_parts){.vocab = make_vocab()};
    assert_int_equal(mr_normalizer_create(&parts.normalizer, NULL, NULL), MR_OK);
    assert_int_equal(mr_pretokenizer_create(&parts.pretokenizer, NULL, NULL), MR_OK);
    mr_tokenizer_parts_drop(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_has_the_ids_of_its_three_texts),
        cmocka_unit_test(a_merge_outside_the_vocabulary_is_a_bad_file),
        cmocka_unit_test(parts_are_dropped_whether_filled_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
