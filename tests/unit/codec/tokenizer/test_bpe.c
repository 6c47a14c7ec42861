#include "codec/tokenizer/bpe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* a b c d ab bc abc aa é <0xC3> <0xA9> <unk> x <0x78> */
static const struct mr_text texts[] = {
    {"a", 1},  {"b", 1},        {"c", 1},      {"d", 1},      {"ab", 2},     {"bc", 2}, {"abc", 3},
    {"aa", 2}, {"\xc3\xa9", 2}, {"<0xE2>", 6}, {"<0x82>", 6}, {"<0xAC>", 6}, {"?", 1},  {"aaaa", 4},
};
enum { A, B, C, D, AB, BC, ABC, AA, E_ACUTE, BYTE_E2, BYTE_82, BYTE_AC, UNKNOWN, AAAA };

static const struct mr_merge merges[] = {
    {B, C, BC, 0}, {A, B, AB, 1}, {A, BC, ABC, 2}, {A, A, AA, 3}, {AA, AA, AAAA, 4}};

struct fixture {
    struct mr_vocab *vocab;
    struct mr_bpe *bpe;
    struct mr_bpe_scratch *scratch;
};

static struct fixture build(struct mr_bpe_options options)
{
    struct fixture f;
    assert_int_equal(mr_vocab_create(&f.vocab, texts, sizeof texts / sizeof texts[0], NULL), MR_OK);
    assert_int_equal(mr_bpe_create(&f.bpe, f.vocab, merges, 5, &options, NULL), MR_OK);
    f.scratch = mr_bpe_scratch_create(f.bpe);
    return f;
}

static void drop(struct fixture f)
{
    mr_bpe_scratch_destroy(f.scratch);
    mr_bpe_destroy(f.bpe);
    mr_vocab_destroy(f.vocab);
}

static void assert_ids(const struct fixture *f, const char *text, const uint32_t *want,
                       size_t count)
{
    uint32_t ids[64];
    for (int again = 0; again < 2; again++) { /* the second time from the cache */
        struct mr_id_list list = {.ids = ids, .max = 64};
        struct mr_text piece = {text, strlen(text)};
        assert_int_equal(mr_bpe_encode(f->bpe, f->scratch, piece, &list, NULL), MR_OK);
        assert_int_equal(list.count, count);
        assert_memory_equal(ids, want, count * sizeof *ids);
    }
}
#define IDS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4

static void the_lowest_rank_merges_first_then_the_leftmost(void **state)
{
    (void)state;
    struct fixture f = build((struct mr_bpe_options){.unk_id = MR_TOKEN_NONE});
    assert_ids(&f, "abc", IDS(ABC));
    assert_ids(&f, "abd", IDS(AB, D));
    assert_ids(&f, "aaa", IDS(AA, A));
    assert_ids(&f, "aaaaa", IDS(AAAA, A));
    assert_ids(&f, "d", IDS(D));
    assert_ids(&f, "cba", IDS(C, B, A));
    drop(f);
}

static void unknown_characters_are_dropped_fused_or_byte_tokens(void **state)
{
    (void)state;
    struct fixture f = build((struct mr_bpe_options){.unk_id = MR_TOKEN_NONE});
    assert_ids(&f, "axb", IDS(AB));
    drop(f);
    f = build((struct mr_bpe_options){.unk_id = UNKNOWN});
    assert_ids(&f, "axyb", IDS(A, UNKNOWN, UNKNOWN, B));
    drop(f);
    f = build((struct mr_bpe_options){.unk_id = UNKNOWN, .fuse_unk = true});
    assert_ids(&f, "axyb", IDS(A, UNKNOWN, B));
    assert_ids(&f, "xy", IDS(UNKNOWN));
    drop(f);
    f = build((struct mr_bpe_options){.unk_id = UNKNOWN, .fuse_unk = true, .byte_fallback = true});
    assert_ids(&f, "a\u20acb", IDS(A, BYTE_E2, BYTE_82, BYTE_AC, B));
    assert_ids(&f, "\u00e9", IDS(E_ACUTE));
    assert_ids(&f, "x\u20ac", IDS(BYTE_E2, BYTE_82, BYTE_AC, UNKNOWN)); /* as the reference does */
    drop(f);
}

static void ignore_merges_prefers_a_whole_token(void **state)
{
    (void)state;
    static const struct mr_text words[] = {{"h", 1}, {"i", 1}, {"hi", 2}};
    struct mr_vocab *vocab;
    struct mr_bpe *bpe;
    assert_int_equal(mr_vocab_create(&vocab, words, 3, NULL), MR_OK);
    for (unsigned ignore = 0; ignore < 2; ignore++) {
        struct mr_bpe_options options = {.ignore_merges = ignore == 1, .unk_id = MR_TOKEN_NONE};
        assert_int_equal(mr_bpe_create(&bpe, vocab, NULL, 0, &options, NULL), MR_OK);
        struct mr_bpe_scratch *scratch = mr_bpe_scratch_create(bpe);
        uint32_t ids[4];
        struct mr_id_list list = {.ids = ids, .max = 4};
        assert_int_equal(mr_bpe_encode(bpe, scratch, (struct mr_text){"hi", 2}, &list, NULL),
                         MR_OK);
        assert_int_equal(list.count, ignore == 1 ? 1 : 2);
        mr_bpe_scratch_destroy(scratch);
        mr_bpe_destroy(bpe);
    }
    mr_vocab_destroy(vocab);
}

static void byte_pieces_are_looked_up_in_the_byte_alphabet(void **state)
{
    (void)state;
    static const struct mr_text words[] = {
        {"\u0120", 2}, {"\u00ff", 2}, {"a", 1}, {"\u0120a", 3}, {"not in it", 9}};
    struct mr_vocab *vocab;
    struct mr_bpe *bpe;
    const struct mr_merge merge = {0, 2, 3, 0};
    assert_int_equal(mr_vocab_create(&vocab, words, 5, NULL), MR_OK);
    for (unsigned ignore = 0; ignore < 2; ignore++) {
        struct mr_bpe_options options = {
            .bytes = true, .ignore_merges = ignore == 1, .unk_id = MR_TOKEN_NONE};
        assert_int_equal(mr_bpe_create(&bpe, vocab, &merge, 1, &options, NULL), MR_OK);
        struct mr_bpe_scratch *scratch = mr_bpe_scratch_create(bpe);
        uint32_t ids[4];
        struct mr_id_list list = {.ids = ids, .max = 4};
        struct mr_text pieces[] = {{" a", 2}, {"\xff\x80", 2}, {"not in it", 9}};
        for (int i = 0; i < 2; i++)
            assert_int_equal(mr_bpe_encode(bpe, scratch, pieces[i], &list, NULL), MR_OK);
        assert_int_equal(list.count, 2);
        assert_int_equal(ids[0], 3);
        assert_int_equal(ids[1], 1);
        list.count = 0;
        assert_int_equal(mr_bpe_encode(bpe, scratch, pieces[2], &list, NULL), MR_OK);
        assert_true(list.count == 2 && ids[0] == 0 &&
                    ids[1] == 0); /* the two spaces of the piece */
        mr_bpe_scratch_destroy(scratch);
        mr_bpe_destroy(bpe);
    }
    mr_vocab_destroy(vocab);
}

/* The definition of the algorithm, without any optimization. */
static size_t naive(const char *text, uint32_t *ids)
{
    size_t count = strlen(text);
    for (size_t i = 0; i < count; i++)
        ids[i] = (uint32_t)(text[i] - 'a');
    for (;;) {
        uint32_t best_rank = UINT32_MAX, result = 0;
        size_t best = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (size_t m = 0; m < 5; m++)
                if (merges[m].left == ids[i] && merges[m].right == ids[i + 1] &&
                    merges[m].rank < best_rank) {
                    best_rank = merges[m].rank;
                    best = i;
                    result = merges[m].result;
                }
        if (best_rank == UINT32_MAX) return count;
        ids[best] = result;
        memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
        count--;
    }
}

static void short_and_long_pieces_equal_the_definition(void **state)
{
    (void)state;
    struct fixture f = build((struct mr_bpe_options){.unk_id = MR_TOKEN_NONE});
    uint64_t seed = 42;
    for (int round = 0; round < 3000; round++) {
        char text[201];
        uint32_t got[200], want[200];
        size_t length = 1 + (size_t)(round % 200);
        for (size_t i = 0; i < length; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)('a' + (seed >> 33) % 4);
        }
        text[length] = '\0';
        struct mr_id_list list = {.ids = got, .max = 200};
        assert_int_equal(
            mr_bpe_encode(f.bpe, f.scratch, (struct mr_text){text, length}, &list, NULL), MR_OK);
        assert_int_equal(list.count, naive(text, want));
        assert_memory_equal(got, want, list.count * sizeof *got);
    }
    drop(f);
}

static void a_megabyte_of_one_letter_is_encoded_in_time(void **state)
{
    (void)state;
    struct fixture f = build((struct mr_bpe_options){.unk_id = MR_TOKEN_NONE});
    size_t length = (1 << 20) + 3;
    char *text = malloc(length);
    memset(text, 'a', length);
    uint32_t ids[4];
    struct mr_id_list list = {.ids = ids, .max = 4};
    assert_int_equal(mr_bpe_encode(f.bpe, f.scratch, (struct mr_text){text, length}, &list, NULL),
                     MR_OK);
    assert_int_equal(list.count, (1 << 18) + 2);
    assert_int_equal(ids[0], AAAA);
    free(text);
    drop(f);
}

static void ids_beyond_the_list_are_counted_and_not_stored(void **state)
{
    (void)state;
    struct fixture f = build((struct mr_bpe_options){.unk_id = MR_TOKEN_NONE});
    uint32_t ids[3] = {77, 77, 77};
    struct mr_id_list list = {.ids = ids, .max = 2};
    assert_int_equal(mr_bpe_encode(f.bpe, f.scratch, (struct mr_text){"dcd", 3}, &list, NULL),
                     MR_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(ids[2], 77);
    expect_assert_failure(mr_bpe_encode(f.bpe, f.scratch, (struct mr_text){"", 0}, &list, NULL));
    struct fixture other = build((struct mr_bpe_options){.unk_id = MR_TOKEN_NONE});
    expect_assert_failure(
        mr_bpe_encode(other.bpe, f.scratch, (struct mr_text){"a", 1}, &list, NULL));
    drop(other);
    drop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_rank_merges_first_then_the_leftmost),
        cmocka_unit_test(unknown_characters_are_dropped_fused_or_byte_tokens),
        cmocka_unit_test(ignore_merges_prefers_a_whole_token),
        cmocka_unit_test(byte_pieces_are_looked_up_in_the_byte_alphabet),
        cmocka_unit_test(short_and_long_pieces_equal_the_definition),
        cmocka_unit_test(a_megabyte_of_one_letter_is_encoded_in_time),
        cmocka_unit_test(ids_beyond_the_list_are_counted_and_not_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
