#include "ops/sampling/logit_edits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define VOCAB 8u

static const struct mr_sampling plain = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
static const float model[VOCAB] = {1, -1, 2, -2, 3, -3, 0, 4};

static void edit(const struct mr_sample_row *row, float *logits)
{
    struct mr_logit_edits *edits;
    float again[VOCAB];
    assert_true(mr_logit_edits_any(row));
    assert_int_equal(mr_logit_edits_create(&edits, VOCAB, NULL), MR_OK);
    memcpy(logits, model, sizeof model);
    mr_logit_edits_apply(edits, row, logits);
    memcpy(again, model, sizeof model); /* the scratch is as it was before */
    mr_logit_edits_apply(edits, row, again);
    assert_memory_equal(logits, again, sizeof again);
    mr_logit_edits_destroy(edits);
}

static void a_request_without_edits_changes_no_logit(void **state)
{
    (void)state;
    const uint32_t history[] = {1, 2};
    const struct mr_sample_row row = {.sampling = &plain, .history = history, .history_count = 2};
    assert_false(mr_logit_edits_any(&row));
}

static void bias_is_added_and_ids_outside_the_vocabulary_are_ignored(void **state)
{
    (void)state;
    struct mr_sampling sampling = plain;
    const struct mr_logit_bias bias[] = {{2, 10.0f}, {3, -0.5f}, {VOCAB, 1.0f}};
    sampling.logit_bias = bias;
    sampling.logit_bias_count = 3;
    const uint32_t history[] = {VOCAB + 5}, *words[] = {history};
    const uint32_t counts[] = {1};
    const struct mr_sample_row row = {.sampling = &sampling,
                                      .suppressed = history,
                                      .suppressed_count = 1,
                                      .bad_words = words,
                                      .bad_word_counts = counts,
                                      .bad_word_count = 1};
    float logits[VOCAB];
    edit(&row, logits);
    assert_true(logits[2] == 12.0f && logits[3] == -2.5f && logits[0] == 1.0f);
}

static void only_allowed_ids_remain(void **state)
{
    (void)state;
    struct mr_sampling sampling = plain;
    const uint32_t allowed[] = {1, 4, 4, VOCAB}, suppressed[] = {4};
    sampling.allowed_token_ids = allowed;
    sampling.allowed_token_count = 4;
    const struct mr_sample_row row = {
        .sampling = &sampling, .suppressed = suppressed, .suppressed_count = 1};
    float logits[VOCAB];
    edit(&row, logits);
    for (uint32_t id = 0; id < VOCAB; id++)
        assert_true(id == 1 ? logits[id] == -1.0f : logits[id] == -INFINITY);
}

static void a_bad_word_is_never_completed(void **state)
{
    (void)state;
    const uint32_t one[] = {6}, two[] = {5, 7}, other[] = {4, 0}, longer[] = {9, 9, 9, 9, 2};
    const uint32_t *const words[] = {one, two, other, longer};
    const uint32_t counts[] = {1, 2, 2, 5}, history[] = {4, 5};
    const struct mr_sample_row row = {.sampling = &plain,
                                      .history = history,
                                      .history_count = 2,
                                      .bad_words = words,
                                      .bad_word_counts = counts,
                                      .bad_word_count = 4};
    float logits[VOCAB];
    edit(&row, logits);
    assert_true(logits[6] == -INFINITY && logits[7] == -INFINITY);
    assert_true(logits[0] == 1.0f && logits[2] == 2.0f);
}

static void repetition_counts_prompt_and_output_once(void **state)
{
    (void)state;
    struct mr_sampling sampling = plain;
    sampling.repetition_penalty = 2.0f;
    const uint32_t history[] = {2, 3, 2, 2, VOCAB + 1, 3};
    const struct mr_sample_row row = {
        .sampling = &sampling, .history = history, .history_count = 6, .prompt_count = 2};
    float logits[VOCAB];
    edit(&row, logits);
    assert_true(logits[2] == 1.0f && logits[3] == -4.0f && logits[4] == 3.0f);
}

static void presence_and_frequency_count_the_output_only(void **state)
{
    (void)state;
    struct mr_sampling sampling = plain;
    sampling.presence_penalty = 0.5f;
    sampling.frequency_penalty = 0.25f;
    const uint32_t history[] = {4, 2, 3, 2, VOCAB};
    const struct mr_sample_row row = {
        .sampling = &sampling, .history = history, .history_count = 5, .prompt_count = 1};
    float logits[VOCAB];
    edit(&row, logits);
    assert_true(logits[4] == 3.0f);          /* a token of the prompt: unchanged */
    assert_true(logits[2] == 2.0f - 1.0f);   /* occurs twice in the output */
    assert_true(logits[3] == -2.0f - 0.75f); /* occurs once in the output */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_without_edits_changes_no_logit),
        cmocka_unit_test(bias_is_added_and_ids_outside_the_vocabulary_are_ignored),
        cmocka_unit_test(only_allowed_ids_remain),
        cmocka_unit_test(a_bad_word_is_never_completed),
        cmocka_unit_test(repetition_counts_prompt_and_output_once),
        cmocka_unit_test(presence_and_frequency_count_the_output_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
