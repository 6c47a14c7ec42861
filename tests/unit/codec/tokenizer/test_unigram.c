#include "codec/tokenizer/unigram.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_text texts[] = {
    {"<unk>", 5},  {"a", 1},      {"b", 1},   {"ab", 2},       {"abc", 3}, {"c", 1},
    {"<0xE2>", 6}, {"<0x82>", 6}, {"<s>", 3}, {"\xc3\xa9", 2}, {"bc", 2},  {"ab", 2},
};
enum { UNK, A, B, FIRST_AB, ABC, C, BYTE_E2, BYTE_82, CONTROL, E_ACUTE, BC, AB, COUNT };

struct fixture {
    struct mr_vocab *vocab;
    struct mr_unigram *unigram;
    struct mr_unigram_scratch *scratch;
};

static struct fixture build(bool byte_fallback, bool float_sums)
{
    const double scores[COUNT] = {0, -2, -2, -9, -5, -2, 0, 0, NAN, -3, -3, -3};
    struct mr_unigram_options options = {
        .unk_score = -19, .unk_id = UNK, .byte_fallback = byte_fallback, .float_sums = float_sums};
    struct fixture f;
    assert_int_equal(mr_vocab_create(&f.vocab, texts, COUNT, NULL), MR_OK);
    assert_int_equal(mr_unigram_create(&f.unigram, f.vocab, scores, &options, NULL), MR_OK);
    f.scratch = mr_unigram_scratch_create();
    return f;
}

static void drop(struct fixture f)
{
    mr_unigram_scratch_destroy(f.scratch);
    mr_unigram_destroy(f.unigram);
    mr_vocab_destroy(f.vocab);
}

static void assert_ids(const struct fixture *f, const char *text, const uint32_t *want,
                       size_t count)
{
    uint32_t ids[64];
    struct mr_id_list list = {.ids = ids, .max = 64};
    struct mr_text piece = {text, strlen(text)};
    assert_int_equal(mr_unigram_encode(f->unigram, f->scratch, piece, &list, NULL), MR_OK);
    assert_int_equal(list.count, count);
    assert_memory_equal(ids, want, count * sizeof *ids);
}
#define IDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4

static void the_path_with_the_highest_sum_is_taken(void **state)
{
    (void)state;
    struct fixture f = build(false, false);
    assert_ids(&f, "a", IDS(A));
    assert_ids(&f, "aab", IDS(A, AB));   /* -5 against -6 */
    assert_ids(&f, "abca", IDS(ABC, A)); /* a bc a and ab c a are as good, but found later */
    assert_ids(&f,
               "\xc3\xa9"
               "ab",
               IDS(E_ACUTE, AB));
    drop(f);
}

static void of_equal_paths_the_one_whose_last_token_starts_first_is_kept(void **state)
{
    (void)state;
    struct fixture f = build(false, false);
    assert_ids(&f, "abc", IDS(ABC));
    drop(f);
}

static void of_two_tokens_with_one_text_the_later_one_counts(void **state)
{
    (void)state;
    struct fixture f = build(false, true);
    assert_ids(&f, "ab", IDS(AB));
    drop(f);
}

static void unknown_characters_fuse_or_become_bytes(void **state)
{
    (void)state;
    struct fixture f = build(false, false);
    assert_ids(&f, "xyaz", IDS(UNK, A, UNK));
    assert_ids(&f, "<s>", IDS(UNK)); /* a token without score is never found */
    drop(f);
    f = build(true, false);
    assert_ids(&f,
               "\xe2\x82\x82"
               "a",
               IDS(BYTE_E2, BYTE_82, BYTE_82, A));
    assert_ids(&f, "xa", IDS(UNK, A)); /* there is no <0x78> */
    assert_ids(&f, "<unk>", IDS(UNK)); /* the text of the unknown token itself has no bytes */
    drop(f);
}

static void a_long_piece_grows_the_scratch(void **state)
{
    (void)state;
    struct fixture f = build(false, false);
    size_t length = 100000;
    char *bytes = malloc(length);
    uint32_t *ids = calloc(length, sizeof *ids);
    memset(bytes, 'a', length);
    struct mr_id_list list = {.ids = ids, .max = length};
    assert_int_equal(
        mr_unigram_encode(f.unigram, f.scratch, (struct mr_text){bytes, length}, &list, NULL),
        MR_OK);
    assert_int_equal(list.count, length);
    assert_int_equal(ids[length - 1], A);
    free(ids);
    free(bytes);
    drop(f);
}

static void a_bad_vocabulary_is_a_bad_file(void **state)
{
    (void)state;
    static char wide[MR_UNIGRAM_TOKEN_BYTES_MAX + 1];
    memset(wide, 'w', sizeof wide);
    const struct mr_text two[] = {{"a", 1}, {wide, sizeof wide}};
    const double scores[] = {0, -1};
    struct mr_unigram_options options = {.unk_id = 2};
    struct mr_vocab *vocab;
    struct mr_unigram *unigram;
    assert_int_equal(mr_vocab_create(&vocab, two, 2, NULL), MR_OK);
    assert_int_equal(mr_unigram_create(&unigram, vocab, scores, &options, NULL), MR_BAD_FILE);
    options.unk_id = 0;
    assert_int_equal(mr_unigram_create(&unigram, vocab, scores, &options, NULL), MR_BAD_FILE);
    assert_null(unigram);
    mr_vocab_destroy(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_with_the_highest_sum_is_taken),
        cmocka_unit_test(of_equal_paths_the_one_whose_last_token_starts_first_is_kept),
        cmocka_unit_test(of_two_tokens_with_one_text_the_later_one_counts),
        cmocka_unit_test(unknown_characters_fuse_or_become_bytes),
        cmocka_unit_test(a_long_piece_grows_the_scratch),
        cmocka_unit_test(a_bad_vocabulary_is_a_bad_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
