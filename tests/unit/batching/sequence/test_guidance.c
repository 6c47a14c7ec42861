#include "batching/sequence/guidance.h"

#include "codec/constraint/constraint.h"
#include "tests/fakes/fake_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The fake tokenizer: a byte b is id b + 1, <|end|> is id 0. */
#define ID(byte)  ((uint32_t)(byte) + 1u)
#define WORDS_MAX 16u

static struct mr_tokenizer *tokenizer;
static struct mr_token_mask *masks;
static struct mr_grammar *grammar;
static struct mr_guidance *guidance;
static const uint32_t end_ids[] = {MR_FAKE_END};

static int setup(void **state)
{
    (void)state;
    const struct mr_constraint constraint = {MR_CONSTRAINT_REGEX, {"a(b|cd)?", 8}, false};
    tokenizer = mr_fake_tokenizer();
    assert_int_equal(mr_token_mask_create(&masks, tokenizer, MR_FAKE_VOCABULARY, end_ids, 1, NULL),
                     MR_OK);
    assert_int_equal(mr_constraint_compile(&grammar, &constraint, NULL, NULL), MR_OK);
    assert_int_equal(mr_guidance_create(&guidance, grammar, masks, 2, NULL), MR_OK);
    assert_true(mr_token_mask_words(masks) <= WORDS_MAX);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mr_guidance_destroy(guidance);
    mr_grammar_drop(grammar);
    mr_token_mask_destroy(masks);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}

static bool fill(struct mr_guidance *of, struct mr_token_mask *mask,
                 const struct mr_guidance_answer *answer, uint64_t *bits)
{
    if (!mr_guidance_has_mask(of, answer->choice, answer->token_count))
        mr_guidance_make_mask(of, mask, answer);
    return mr_guidance_copy_mask(of, answer->choice, answer->token_count, bits);
}

/* Asserts which bytes may follow what a choice has generated, '$' for the end token. */
static void assert_next(uint32_t choice, const char *generated, const char *next, bool over)
{
    uint64_t bits[WORDS_MAX];
    uint32_t tokens[16], count = 0;
    for (const char *at = generated; *at; at++)
        tokens[count++] = ID(*at);
    const struct mr_guidance_answer answer = {choice, tokens, count, end_ids, 1};
    assert_int_equal(fill(guidance, masks, &answer, bits), over);
    for (uint32_t id = 0; id < MR_FAKE_VOCABULARY; id++) {
        char byte = id == MR_FAKE_END ? '$' : (char)(id - 1);
        bool wanted = id <= 256 && byte != '\0' && (byte != '$' || id == MR_FAKE_END) &&
                      strchr(next, byte) != NULL;
        if ((bits[id / 64] >> (id % 64) & 1) != wanted) fail_msg("after %s: id %u", generated, id);
    }
}

static void each_choice_has_its_own_place(void **state)
{
    (void)state;
    assert_next(0, "", "a", false);
    assert_next(1, "", "a", false);
    assert_next(0, "a", "bc$", false);
    assert_next(1, "ac", "d", false);
    assert_next(0, "ab", "$", true);
    assert_next(1, "acd", "$", true);
}

/* a(b|cd)? forces a; then b, c or the end; then d. */
static void forced_bytes_and_rows_behind_drafts(void **state)
{
    (void)state;
    const uint32_t answer_ids[] = {ID('a'), ID('c')}, drafts[] = {ID('c'), ID('d'), ID('b')};
    struct mr_guidance_answer answer = {1, answer_ids, 0, end_ids, 1};
    uint32_t ids[4], sure;
    uint64_t bits[WORDS_MAX], want[WORDS_MAX];
    assert_int_equal(mr_guidance_forced(guidance, masks, &answer, ids, 4, &sure), 1);
    assert_int_equal(sure, 1);
    assert_int_equal(ids[0], ID('a'));
    answer.token_count = 1;
    assert_int_equal(mr_guidance_forced(guidance, masks, &answer, ids, 4, &sure), 0);
    assert_int_equal(sure, 0);
    assert_int_equal(mr_guidance_count_drafts(guidance, masks, &answer, drafts, 3), 2);
    assert_false(mr_guidance_fill_behind(guidance, masks, &answer, drafts, 1, bits));
    answer.token_count = 2; /* the draft has come true */
    assert_int_equal(mr_guidance_forced(guidance, masks, &answer, ids, 4, &sure), 1);
    assert_int_equal(ids[0], ID('d'));
    assert_false(fill(guidance, masks, &answer, want));
    assert_memory_equal(bits, want, mr_token_mask_words(masks) * sizeof *bits);
    assert_true(mr_guidance_fill_behind(guidance, masks, &answer, drafts + 1, 1, bits));
}

/* name_of(a|z): shorter tokens for bytes of the name are not allowed where a longer one spells
 * them. Instead of "o", a token that continues past the forced bytes is allowed. */
static void only_the_longest_spelling_of_forced_bytes_is_allowed(void **state)
{
    (void)state;
    static const char *const words[] = {"n", "a",  "m",  "e",    "_",   "o",       "f",
                                        "z", "na", "me", "name", "ofa", "nameless"};
    enum { WORDS = sizeof words / sizeof words[0] };
    const struct mr_constraint constraint = {MR_CONSTRAINT_REGEX, {"name_of(a|z)", 12}, false};
    const struct mr_guidance_answer start = {0, NULL, 0, end_ids, 1};
    const uint32_t behind[] = {10, 4, 5};
    struct mr_text texts[WORDS];
    struct mr_token_mask *mask;
    struct mr_grammar *name;
    struct mr_guidance *answer;
    uint32_t ids[8], sure;
    uint64_t bits[1];
    for (size_t i = 0; i < WORDS; i++)
        texts[i] = (struct mr_text){words[i], strlen(words[i])};
    assert_int_equal(mr_token_mask_of_texts(&mask, texts, WORDS, NULL), MR_OK);
    assert_int_equal(mr_constraint_compile(&name, &constraint, NULL, NULL), MR_OK);
    assert_int_equal(mr_guidance_create(&answer, name, mask, 1, NULL), MR_OK);
    assert_int_equal(mr_guidance_forced(answer, mask, &start, ids, 8, &sure), 4);
    assert_true(ids[0] == 10 && ids[1] == 4 && ids[2] == 5 && ids[3] == 6);
    assert_int_equal(sure, 2);
    assert_false(fill(answer, mask, &start, bits));
    assert_int_equal(bits[0], 1u << 10);
    assert_false(mr_guidance_fill_behind(answer, mask, &start, behind, 1, bits));
    assert_int_equal(bits[0], 1u << 4);
    assert_false(mr_guidance_fill_behind(answer, mask, &start, behind, 2, bits));
    assert_int_equal(bits[0], 1u << 5 | 1u << 11);
    assert_false(mr_guidance_fill_behind(answer, mask, &start, behind, 3, bits));
    assert_int_equal(bits[0], 1u << 6);
    mr_guidance_destroy(answer);
    mr_grammar_drop(name);
    mr_token_mask_destroy(mask);
}

/* An end token whose text fits the grammar would end the answer in the middle of it. */
static void an_end_token_is_no_text(void **state)
{
    (void)state;
    static const uint32_t ends[] = {MR_FAKE_END, ID('x')};
    const struct mr_constraint constraint = {MR_CONSTRAINT_REGEX, {"<(x|y)*>", 8}, false};
    const uint32_t tokens[] = {ID('<'), ID('y'), ID('>')}, drafts[] = {ID('y'), ID('x')};
    const struct mr_sample samples[] = {{.token_id = ID('<')}, {.token_id = ID('x')}};
    struct mr_guidance_answer answer = {0, tokens, 2, ends, 2};
    struct mr_token_mask *mask;
    struct mr_grammar *name;
    struct mr_guidance *of;
    uint64_t bits[WORDS_MAX];
    uint32_t kept;
    assert_int_equal(mr_token_mask_create(&mask, tokenizer, MR_FAKE_VOCABULARY, ends, 2, NULL),
                     MR_OK);
    assert_int_equal(mr_constraint_compile(&name, &constraint, NULL, NULL), MR_OK);
    assert_int_equal(mr_guidance_create(&of, name, mask, 1, NULL), MR_OK);
    assert_false(fill(of, mask, &answer, bits));
    assert_true(bits[ID('y') / 64] >> (ID('y') % 64) & 1);
    assert_false(bits[ID('x') / 64] >> (ID('x') % 64) & 1);
    assert_int_equal(mr_guidance_count_drafts(of, mask, &answer, drafts, 2), 1);
    assert_int_equal(mr_guidance_count_allowed(of, mask, samples, 2, &kept, NULL), MR_OK);
    assert_int_equal(kept, 1);
    answer.token_count = 3;
    assert_true(fill(of, mask, &answer, bits));
    assert_true(bits[ID('x') / 64] >> (ID('x') % 64) & 1);
    mr_guidance_destroy(of);
    mr_grammar_drop(name);
    mr_token_mask_destroy(mask);
}

static void asking_twice_changes_nothing(void **state)
{
    (void)state;
    assert_next(0, "a", "bc$", false);
    assert_next(0, "a", "bc$", false);
    assert_next(1, "acd", "$", true);
    assert_next(1, "acd", "$", true);
}

/* The sampler's masks prevent this; if it happens, the answer ends. */
static void a_token_that_was_not_allowed_ends_the_answer(void **state)
{
    (void)state;
    assert_next(0, "x", "$", true);
    assert_next(0, "xa", "$", true);
}

static void tokens_of_an_earlier_attempt_are_counted(void **state)
{
    (void)state;
    const struct mr_sample samples[] = {
        {.token_id = ID('a')}, {.token_id = ID('c')}, {.token_id = ID('x')}};
    uint32_t kept;
    assert_int_equal(mr_guidance_count_allowed(guidance, masks, samples, 3, &kept, NULL), MR_OK);
    assert_int_equal(kept, 2);
    assert_int_equal(mr_guidance_count_allowed(guidance, masks, samples, 1, &kept, NULL), MR_OK);
    assert_int_equal(kept, 1);
    assert_next(0, "", "a", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_choice_has_its_own_place, setup, teardown),
        cmocka_unit_test_setup_teardown(forced_bytes_and_rows_behind_drafts, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_longest_spelling_of_forced_bytes_is_allowed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_end_token_is_no_text, setup, teardown),
        cmocka_unit_test_setup_teardown(asking_twice_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_token_that_was_not_allowed_ends_the_answer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(tokens_of_an_earlier_attempt_are_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
