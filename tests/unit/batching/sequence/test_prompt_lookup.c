#include "batching/sequence/prompt_lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CAPACITY = 4000, PROMPT = 1000 };

static uint32_t tokens[CAPACITY];
static struct mr_guess guesses[32];

static struct mr_prompt_lookup *make(uint32_t capacity, uint32_t prompt_tokens)
{
    struct mr_prompt_lookup *lookup;
    assert_int_equal(mr_prompt_lookup_create(&lookup, capacity, prompt_tokens, NULL), MR_OK);
    return lookup;
}

/* All different: nothing repeats. */
static void fill_plain(uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        tokens[i] = 100000 + i;
}

static void text_without_repetition_gives_no_guess(void **state)
{
    (void)state;
    struct mr_prompt_lookup *lookup = make(CAPACITY, PROMPT);
    fill_plain(0, CAPACITY);
    for (uint32_t count = 1; count <= CAPACITY; count++)
        assert_int_equal(mr_prompt_lookup_guess(lookup, tokens, count, guesses, 8), 0);
    mr_prompt_lookup_destroy(lookup);
}

static void a_quote_is_guessed_from_its_second_token_on(void **state)
{
    (void)state;
    struct mr_prompt_lookup *lookup = make(CAPACITY, PROMPT);
    fill_plain(0, PROMPT);
    for (uint32_t i = 0; i < 100; i++)
        tokens[PROMPT + i] = tokens[300 + i];
    assert_int_equal(mr_prompt_lookup_guess(lookup, tokens, PROMPT + 1, guesses, 8), 0);
    float before = 0;
    for (uint32_t count = PROMPT + 2; count < PROMPT + 100; count++) {
        assert_int_equal(mr_prompt_lookup_guess(lookup, tokens, count, guesses, 8), 8);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(guesses[i].token_id, tokens[300 + count - PROMPT + i]);
        assert_true(guesses[7].chance >= guesses[0].chance);
        assert_true(guesses[0].chance >= before && guesses[0].chance <= 1.0f);
        before = guesses[0].chance;
    }
    assert_true(before > 0.9f);
    mr_prompt_lookup_destroy(lookup);
}

/* The longest match is used, and the most recent among equally long ones. */
static void the_longest_recent_match_is_taken(void **state)
{
    (void)state;
    const uint32_t text[] = {7, 1, 2, 50, 8, 1, 2, 51, 9, 1, 2, 52, 8, 1, 2};
    for (uint32_t i = 0; i < 15; i++)
        tokens[i] = text[i];
    struct mr_prompt_lookup *longest = make(CAPACITY, 15), *recent = make(CAPACITY, 15);
    assert_int_equal(mr_prompt_lookup_guess(longest, tokens, 15, guesses, 1), 1);
    assert_int_equal(guesses[0].token_id, 51); /* after 8 1 2 */
    tokens[12] = 6;
    assert_int_equal(mr_prompt_lookup_guess(recent, tokens, 15, guesses, 1), 1);
    assert_int_equal(guesses[0].token_id, 52); /* after 1 2, the last time */
    mr_prompt_lookup_destroy(longest);
    mr_prompt_lookup_destroy(recent);
}

/* In a loop the guesses continue past the end of the tokens. */
static void guesses_may_follow_from_guesses(void **state)
{
    (void)state;
    struct mr_prompt_lookup *lookup = make(CAPACITY, 0);
    for (uint32_t i = 0; i < 9; i++)
        tokens[i] = i % 3;
    assert_int_equal(mr_prompt_lookup_guess(lookup, tokens, 9, guesses, 32), 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(guesses[i].token_id, i % 3);
    mr_prompt_lookup_destroy(lookup);
}

/* Pairs that are followed by another token each time. */
static void wrong_guesses_lower_the_chance(void **state)
{
    (void)state;
    struct mr_prompt_lookup *lookup = make(CAPACITY, 3);
    float first = 0, last = 1;
    for (uint32_t i = 0; i < 300; i += 3) {
        tokens[i] = 1;
        tokens[i + 1] = 2;
        tokens[i + 2] = 1000 + i;
        if (mr_prompt_lookup_guess(lookup, tokens, i + 2, guesses, 1) == 1)
            last = guesses[0].chance;
        if (first <= 0) first = last < 1 ? last : 0;
    }
    assert_true(first > 0.1f && last < 0.01f);
    mr_prompt_lookup_destroy(lookup);
}

/* There are far more tokens than the index has places: only recent ones are found, and no wrong
 * ones. */
static void a_long_sequence_forgets_its_beginning(void **state)
{
    (void)state;
    enum { LONG = 200000, NEAR = LONG - 5000, FAR = 1000, COPIED = 50 };
    uint32_t *many = malloc((LONG + COPIED) * sizeof *many);
    assert_non_null(many);
    for (uint32_t from = FAR;; from = NEAR) {
        struct mr_prompt_lookup *lookup = make(LONG + COPIED, LONG);
        for (uint32_t i = 0; i < LONG; i++)
            many[i] = i;
        for (uint32_t i = 0; i < COPIED; i++)
            many[LONG + i] = many[from + i];
        uint32_t count = mr_prompt_lookup_guess(lookup, many, LONG + COPIED, guesses, 4);
        assert_int_equal(count, from == NEAR ? 4 : 0);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(guesses[i].token_id, many[from + COPIED + i]);
        mr_prompt_lookup_destroy(lookup);
        if (from == NEAR) break;
    }
    assert_true(mr_prompt_lookup_bytes(10000000) < (size_t)330 << 10);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_repetition_gives_no_guess),
        cmocka_unit_test(a_quote_is_guessed_from_its_second_token_on),
        cmocka_unit_test(the_longest_recent_match_is_taken),
        cmocka_unit_test(guesses_may_follow_from_guesses),
        cmocka_unit_test(wrong_guesses_lower_the_chance),
        cmocka_unit_test(a_long_sequence_forgets_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
