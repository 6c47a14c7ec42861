#include "codec/tokenizer/wordpiece.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { UNK, UN, UNA, AFF, ABLE, AB, LE, A, E_ACUTE, TEXT_COUNT };

static const char *const texts[TEXT_COUNT] = {"[UNK]", "un",   "una", "##aff",     "##able",
                                              "##ab",  "##le", "a",   "##\xc3\xa9"};

static struct mr_wordpiece wordpiece_of(struct mr_vocab **vocab, uint32_t chars_max)
{
    struct mr_text list[TEXT_COUNT];
    for (size_t i = 0; i < TEXT_COUNT; i++)
        list[i] = (struct mr_text){texts[i], strlen(texts[i])};
    assert_int_equal(mr_vocab_create(vocab, list, TEXT_COUNT, NULL), MR_OK);
    return (struct mr_wordpiece){
        .vocab = *vocab, .unk_id = UNK, .chars_max = chars_max, .prefix = "##", .prefix_length = 2};
}

/* expected: [count] ids of the word, after an id that was in the list before. */
static void check(const char *word, uint32_t chars_max, const uint32_t *expected, size_t count)
{
    struct mr_vocab *vocab;
    uint32_t ids[16] = {7};
    struct mr_id_list list = {.ids = ids, .count = 1, .max = 16};
    const struct mr_wordpiece wordpiece = wordpiece_of(&vocab, chars_max);
    mr_wordpiece_encode(&wordpiece, (struct mr_text){word, strlen(word)}, &list);
    assert_int_equal(list.count, count + 1);
    assert_int_equal(ids[0], 7);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(ids[i + 1], expected[i]);
    mr_vocab_destroy(vocab);
}

static void the_longest_token_comes_first(void **state)
{
    (void)state;
    check("unaffable", 100, (const uint32_t[]){UNK}, 1); /* una leaves ffable, which has no token */
    check("unaable", 100, (const uint32_t[]){UNA, ABLE}, 2);
    check("aable", 100, (const uint32_t[]){A, ABLE}, 2);
    check("aabaff", 100, (const uint32_t[]){A, AB, AFF}, 3);
    check("a\xc3\xa9le", 100, (const uint32_t[]){A, E_ACUTE, LE}, 3);
    check("un", 100, (const uint32_t[]){UN}, 1);
}

static void a_word_with_a_place_without_token_is_unknown_as_a_whole(void **state)
{
    (void)state;
    check("aablex", 100, (const uint32_t[]){UNK}, 1);
    check("le", 100, (const uint32_t[]){UNK}, 1);
}

static void characters_of_a_word_are_limited_not_its_bytes(void **state)
{
    (void)state;
    check("a\xc3\xa9\xc3\xa9", 3, (const uint32_t[]){A, E_ACUTE, E_ACUTE}, 3);
    check("a\xc3\xa9\xc3\xa9\xc3\xa9", 3, (const uint32_t[]){UNK}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_token_comes_first),
        cmocka_unit_test(a_word_with_a_place_without_token_is_unknown_as_a_whole),
        cmocka_unit_test(characters_of_a_word_are_limited_not_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
