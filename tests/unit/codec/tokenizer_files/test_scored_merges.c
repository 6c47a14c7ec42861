#include "codec/tokenizer_files/scored_merges.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { A, B, AB, ABA, BA, BYTE, COUNT };

static void each_cut_of_a_token_is_a_merge_ranked_by_score(void **state)
{
    (void)state;
    const struct mr_text texts[] = {{"a", 1},   {"b", 1},  {"ab", 2},
                                    {"aba", 3}, {"ba", 2}, {"bab", 3}};
    const float scores[] = {-9, -9, -2, -1, -2, NAN};
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    assert_int_equal(mr_vocab_create(&parts.vocab, texts, COUNT, NULL), MR_OK);
    assert_int_equal(mr_scored_merges(&parts, scores, NULL), MR_OK);
    const struct mr_merge want[] = {{A, BA, ABA, 0}, {AB, A, ABA, 0}, {A, B, AB, 1}, {B, A, BA, 1}};
    assert_int_equal(parts.merge_count, 4); /* no merge makes the token without a score */
    assert_memory_equal(parts.merges, want, sizeof want);
    mr_tokenizer_parts_drop(&parts);
}

static void a_long_token_is_a_bad_file_unless_it_is_never_merged(void **state)
{
    (void)state;
    static char wide[MR_SCORED_TOKEN_BYTES_MAX + 1];
    memset(wide, 'w', sizeof wide);
    const struct mr_text texts[] = {{"a", 1}, {wide, sizeof wide}};
    float scores[] = {0, NAN};
    struct mr_tokenizer_parts parts = {.vocab = NULL};
    assert_int_equal(mr_vocab_create(&parts.vocab, texts, 2, NULL), MR_OK);
    assert_int_equal(mr_scored_merges(&parts, scores, NULL), MR_OK);
    mr_tokenizer_parts_drop(&parts);
    parts = (struct mr_tokenizer_parts){.vocab = NULL};
    scores[1] = 1;
    assert_int_equal(mr_vocab_create(&parts.vocab, texts, 2, NULL), MR_OK);
    assert_int_equal(mr_scored_merges(&parts, scores, NULL), MR_BAD_FILE);
    mr_tokenizer_parts_drop(&parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cut_of_a_token_is_a_merge_ranked_by_score),
        cmocka_unit_test(a_long_token_is_a_bad_file_unless_it_is_never_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
