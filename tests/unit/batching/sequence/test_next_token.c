#include "batching/sequence/next_token.h"

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
static struct mr_token_text *texts;
static struct mr_job_rules rules;
static struct mr_job *job;

/* A job of two choices, or of one that continues from `kept`. The answers are "ab" and a word. */
static void make(bool constrained, const char *kept)
{
    static const uint32_t prompt[] = {ID('x'), ID('y')};
    static const struct mr_constraint constraint = {MR_CONSTRAINT_REGEX, {"ab[c-e]*", 8}, false};
    static const uint32_t end_ids[] = {MR_FAKE_END};
    struct mr_sample samples[4] = {{0}};
    struct mr_submission submission = {.tenant = "red", .kept = samples};
    tokenizer = mr_fake_tokenizer();
    assert_int_equal(mr_token_text_create(&texts, tokenizer, NULL), MR_OK);
    rules = (struct mr_job_rules){
        .completion = {.tokenizer = tokenizer, .texts = texts, .eos_ids = end_ids, .eos_count = 1},
        .vocab_size = MR_FAKE_VOCABULARY,
        .context_tokens = 100,
        .block_count = 1,
        .speculates = true};
    assert_int_equal(
        mr_token_mask_create(&rules.masks, tokenizer, MR_FAKE_VOCABULARY, end_ids, 1, NULL), MR_OK);
    assert_true(mr_token_mask_words(rules.masks) <= WORDS_MAX);
    struct mr_request *request = mr_fake_request("r", prompt, 2);
    request->choice_count = kept == NULL ? 2 : 1;
    if (constrained) {
        request->constraint = constraint;
        assert_int_equal(mr_constraint_compile(&request->grammar, &constraint, NULL, NULL), MR_OK);
    }
    for (; kept != NULL && *kept; kept++)
        samples[submission.kept_count++].token_id = ID(*kept);
    submission.request = request;
    assert_int_equal(mr_job_create(&job, &rules, &submission, NULL), MR_OK);
}

static int drop(void **state)
{
    (void)state;
    struct mr_request *request = job->request;
    mr_job_destroy(job);
    mr_request_destroy(request);
    mr_token_mask_destroy(rules.masks);
    mr_token_text_destroy(texts);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}

static bool allows(const uint64_t *bits, uint32_t id)
{
    return (bits[id / 64] >> (id % 64) & 1) != 0;
}

static void a_mask_is_made_once_for_each_token(void **state)
{
    (void)state;
    uint64_t bits[WORDS_MAX];
    make(true, NULL);
    struct mr_sequence *first = &job->sequences[0], *second = &job->sequences[1];
    assert_false(mr_next_token_is_ready(first));
    assert_true(mr_next_token_make_mask(first) > 0);
    assert_true(mr_next_token_is_ready(first));
    assert_true(mr_next_token_is_ready(second)); /* all choices begin with the same mask */
    assert_int_equal(mr_next_token_make_mask(first), 0);
    mr_sequence_append(first, ID('a'));
    mr_sequence_append(second, ID('a'));
    assert_false(mr_next_token_is_ready(first));
    assert_true(mr_next_token_make_mask(second) > 0);
    assert_false(mr_next_token_is_ready(first));
    assert_false(mr_guidance_copy_mask(job->guidance, 1, 1, bits));
    assert_true(allows(bits, ID('b')) && !allows(bits, ID('a')) && !allows(bits, MR_FAKE_END));
}

static void a_free_sequence_needs_no_mask(void **state)
{
    (void)state;
    make(false, NULL);
    assert_true(mr_next_token_is_ready(&job->sequences[0]));
    assert_false(mr_next_token_is_costly(&job->sequences[0]));
    assert_int_equal(mr_next_token_make_mask(&job->sequences[0]), 0);
}

static void draft_masks_stop_at_their_work(void **state)
{
    (void)state;
    static const struct mr_guess guesses[] = {{ID('a'), 1.0f}, {ID('b'), 1.0f}, {ID('c'), 1.0f}};
    uint64_t bits[3 * WORDS_MAX];
    uint32_t over;
    make(true, NULL);
    struct mr_sequence *sequence = &job->sequences[0];
    const uint64_t *behind_b = bits + mr_token_mask_words(rules.masks);
    assert_int_equal(mr_next_token_make_draft_masks(sequence, guesses, 3, 0, bits, &over), 0);
    assert_int_equal(mr_next_token_make_draft_masks(sequence, guesses, 3, 1, bits, &over), 1);
    assert_true(allows(bits, ID('b')) && !allows(bits, ID('c')));
    assert_int_equal(mr_next_token_make_draft_masks(sequence, guesses, 3, 1u << 30, bits, &over),
                     3);
    assert_int_equal(over, 0);
    assert_true(allows(behind_b, ID('c')) && allows(behind_b, MR_FAKE_END));
}

/* Forced tokens are guessed; after them the text suggests nothing. */
static void guesses_are_what_the_grammar_forces(void **state)
{
    (void)state;
    struct mr_guess guesses[4];
    make(true, NULL);
    struct mr_sequence *sequence = &job->sequences[0];
    assert_int_equal(mr_next_token_guess(sequence, guesses, 4), 2);
    assert_true(guesses[0].token_id == ID('a') && guesses[1].token_id == ID('b'));
    mr_sequence_append(sequence, ID('a'));
    mr_sequence_append(sequence, ID('b'));
    assert_int_equal(mr_next_token_guess(sequence, guesses, 4), 0);
}

static void a_resumed_answer_goes_on_where_it_was(void **state)
{
    (void)state;
    uint64_t bits[WORDS_MAX];
    make(true, "abd");
    struct mr_sequence *sequence = &job->sequences[0];
    assert_int_equal(mr_sequence_generated(sequence), 3);
    assert_false(mr_next_token_is_ready(sequence));
    (void)mr_next_token_make_mask(sequence);
    assert_false(mr_guidance_copy_mask(job->guidance, 0, 3, bits));
    assert_true(allows(bits, ID('e')) && allows(bits, MR_FAKE_END) && !allows(bits, ID('b')));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_mask_is_made_once_for_each_token, drop),
        cmocka_unit_test_teardown(a_free_sequence_needs_no_mask, drop),
        cmocka_unit_test_teardown(draft_masks_stop_at_their_work, drop),
        cmocka_unit_test_teardown(guesses_are_what_the_grammar_forces, drop),
        cmocka_unit_test_teardown(a_resumed_answer_goes_on_where_it_was, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
