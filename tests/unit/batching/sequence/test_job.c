#include "batching/sequence/job.h"

#include "tests/fakes/fake_request.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_tokenizer *tokenizer;
static struct mr_token_text *texts;
static struct mr_job_rules rules;

static int setup(void **state)
{
    (void)state;
    static const uint32_t end_ids[] = {MR_FAKE_END};
    struct mr_error err = {0};
    tokenizer = mr_fake_tokenizer();
    assert_int_equal(mr_token_text_create(&texts, tokenizer, &err), MR_OK);
    rules = (struct mr_job_rules){
        .completion = {.tokenizer = tokenizer, .texts = texts, .eos_ids = end_ids, .eos_count = 1},
        .vocab_size = MR_FAKE_VOCABULARY,
        .context_tokens = 100,
        .block_count = 1,
        .defaults.temperature = 0.6f,
        .defaults.top_p = 0.9f,
        .defaults.top_k = 40,
        .defaults.min_p = 0.05f,
        .defaults.typical_p = 0.8f,
        .defaults.repetition_penalty = 1.25f,
        .defaults.presence_penalty = 0.5f,
        .defaults.frequency_penalty = -0.5f};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mr_token_text_destroy(texts);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}

static const uint32_t prompt[] = {5, 6, 7, 8};

static struct mr_job *make(struct mr_request *request)
{
    struct mr_job *job = NULL;
    struct mr_error err = {0};
    struct mr_submission submission = {
        .request = request, .ticket = 9, .tenant = "red", .arrival_ns = 5, .priority = 3};
    assert_int_equal(mr_job_create(&job, &rules, &submission, &err), MR_OK);
    return job;
}

static void drop(struct mr_job *job)
{
    struct mr_request *request = job->request;
    mr_job_destroy(job);
    mr_request_destroy(request);
}

static enum mr_status refusal(struct mr_request *request)
{
    struct mr_job *job = NULL;
    struct mr_error err = {0};
    struct mr_submission submission = {.request = request};
    enum mr_status status = mr_job_create(&job, &rules, &submission, &err);
    assert_null(job);
    assert_int_equal(err.status, status);
    assert_true(strlen(err.detail) > 0);
    mr_request_destroy(request);
    return status;
}

static void every_choice_has_the_prompt_and_room_for_its_answer(void **state)
{
    (void)state;
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->choice_count = 3;
    request->max_tokens = 10;
    struct mr_job *job = make(request);
    assert_int_equal(job->choice_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(job->sequences[i].capacity, 14);
        assert_int_equal(job->sequences[i].num_tokens, 4);
        assert_memory_equal(job->sequences[i].tokens, prompt, sizeof prompt);
        assert_ptr_equal(job->sequences[i].job, job);
    }
    assert_ptr_equal(mr_job_of_waiting(&job->waiting), job);
    assert_int_equal(job->waiting.priority, 3);
    assert_true(job->waiting.held_bytes >= 3 * 14 * sizeof(uint32_t));
    drop(job);
}

static void the_context_bounds_the_answer(void **state)
{
    (void)state;
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->max_tokens = 1000000;
    struct mr_job *job = make(request);
    assert_int_equal(job->sequences[0].capacity, 100);
    drop(job);
}

static void seeds_come_from_the_request_or_its_id(void **state)
{
    (void)state;
    struct mr_job *first = make(mr_fake_request("a", prompt, 4));
    struct mr_job *again = make(mr_fake_request("a", prompt, 4));
    struct mr_job *other = make(mr_fake_request("b", prompt, 4));
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->sampling.has_seed = true;
    request->sampling.seed = 77;
    struct mr_job *given = make(request);
    /* FNV-1a of "a": with another value, a redelivered request would get different tokens */
    assert_true(mr_job_seed(first, 0) == 0xaf63dc4c8601ec8cu);
    assert_true(mr_job_seed(first, 0) == mr_job_seed(again, 0));
    assert_true(mr_job_seed(first, 0) != mr_job_seed(other, 0));
    assert_true(mr_job_seed(first, 0) != mr_job_seed(first, 1));
    assert_true(mr_job_seed(given, 0) == 77);
    drop(first);
    drop(again);
    drop(other);
    drop(given);
}

static void tenants_have_different_roots(void **state)
{
    (void)state;
    struct mr_error err = {0};
    struct mr_submission blue = {.request = mr_fake_request("b", prompt, 4), .tenant = "blue"};
    struct mr_job *one = make(mr_fake_request("a", prompt, 4)), *two = NULL;
    assert_int_equal(mr_job_create(&two, &rules, &blue, &err), MR_OK);
    assert_memory_not_equal(one->root, two->root, sizeof one->root);
    drop(one);
    drop(two);
}

/* A request that sets nothing of its sampling. */
static struct mr_request *request_without_sampling(void)
{
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->sampling = (struct mr_sampling){.temperature = NAN,
                                             .top_p = NAN,
                                             .min_p = NAN,
                                             .typical_p = NAN,
                                             .top_k = MR_TOP_K_UNSET,
                                             .repetition_penalty = NAN,
                                             .presence_penalty = NAN,
                                             .frequency_penalty = NAN,
                                             .logprobs = -1};
    return request;
}

static void a_request_without_temperature_gets_the_models_defaults(void **state)
{
    (void)state;
    struct mr_request *request = request_without_sampling();
    struct mr_job *job = make(request);
    assert_true(fabsf(job->sampling.temperature - 0.6f) < 1e-6f);
    assert_true(fabsf(job->sampling.top_p - 0.9f) < 1e-6f);
    assert_int_equal(job->sampling.top_k, 40);
    assert_true(job->sampling.min_p == 0.05f && job->sampling.typical_p == 0.8f);
    assert_true(job->sampling.repetition_penalty == 1.25f);
    assert_true(job->sampling.presence_penalty == 0.5f);
    assert_true(job->sampling.frequency_penalty == -0.5f);
    drop(job);
    request = request_without_sampling();
    request->sampling.top_p = 1.0f; /* off, because the request says so */
    request->sampling.top_k = 0;
    request->sampling.repetition_penalty = 2.0f;
    job = make(request);
    assert_true(job->sampling.top_p == 1.0f && job->sampling.repetition_penalty == 2.0f);
    assert_int_equal(job->sampling.top_k, 0);
    assert_true(job->sampling.min_p == 0.05f);
    drop(job);
    request = request_without_sampling();
    request->sampling.temperature = 0.2f;
    job = make(request);
    assert_true(fabsf(job->sampling.temperature - 0.2f) < 1e-6f);
    assert_true(fabsf(job->sampling.top_p - 1.0f) < 1e-6f);
    assert_int_equal(job->sampling.top_k, 0);
    assert_true(job->sampling.repetition_penalty == 1.0f && job->sampling.typical_p == 1.0f);
    drop(job);
}

static void a_sample_row_says_where_it_stands(void **state)
{
    (void)state;
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->min_tokens = 2;
    struct mr_job *job = make(request);
    mr_sequence_append(&job->sequences[0], 9);
    struct mr_sample_row row = mr_job_sample_row(job, &job->sequences[0], 0);
    assert_int_equal(row.position, 5);
    assert_int_equal(row.history_count, 5);
    assert_int_equal(row.prompt_count, 4);
    assert_int_equal(row.history[4], 9);
    assert_ptr_equal(row.sampling, &job->sampling);
    assert_int_equal(row.suppressed_count, 1);
    assert_int_equal(row.suppressed[0], MR_FAKE_END);
    drop(job);
}

static bool samples_ahead(struct mr_request *request)
{
    struct mr_job *job = make(request);
    bool ahead = mr_job_samples_ahead(job, &job->sequences[0]);
    drop(job);
    return ahead;
}

static void a_row_that_depends_on_the_output_is_not_sampled_ahead(void **state)
{
    (void)state;
    struct mr_text word = {"ab", 2};
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    assert_true(samples_ahead(request));
    request = mr_fake_request("a", prompt, 4);
    request->sampling.repetition_penalty = 1.1f;
    assert_false(samples_ahead(request));
    request = mr_fake_request("a", prompt, 4);
    request->sampling.presence_penalty = -0.5f;
    assert_false(samples_ahead(request));
    request = mr_fake_request("a", prompt, 4);
    request->sampling.frequency_penalty = 0.5f;
    assert_false(samples_ahead(request));
    request = mr_fake_request("a", prompt, 4);
    request->min_tokens = 1;
    assert_false(samples_ahead(request));
    request = mr_fake_request("a", prompt, 4);
    request->sampling.bad_words = &word;
    request->sampling.bad_word_count = 1;
    assert_false(samples_ahead(request));
}

/* In the fake vocabulary byte b is id b + 1. */
static void bad_words_are_banned_with_and_without_a_space(void **state)
{
    (void)state;
    struct mr_text word = {"ab", 2};
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->sampling.bad_words = &word;
    request->sampling.bad_word_count = 1;
    struct mr_job *job = make(request);
    struct mr_sample_row row = mr_job_sample_row(job, &job->sequences[0], 0);
    assert_int_equal(row.bad_word_count, 2);
    assert_int_equal(row.bad_word_counts[0], 2);
    assert_int_equal(row.bad_words[0][0], 'a' + 1);
    assert_int_equal(row.bad_words[0][1], 'b' + 1);
    assert_int_equal(row.bad_word_counts[1], 3);
    assert_int_equal(row.bad_words[1][0], ' ' + 1);
    drop(job);
}

static void what_can_never_run_is_refused(void **state)
{
    (void)state;
    uint32_t many[300], wrong = MR_FAKE_VOCABULARY;
    for (uint32_t i = 0; i < 300; i++)
        many[i] = 3;
    assert_int_equal(refusal(mr_fake_request("a", prompt, 0)), MR_EMPTY_PROMPT);
    assert_int_equal(refusal(mr_fake_request("a", many, 100)), MR_PROMPT_TOO_LONG);
    rules.context_tokens = 1000;
    assert_int_equal(refusal(mr_fake_request("a", many, MR_BLOCK_TOKENS + 1)), MR_PROMPT_TOO_LONG);
    assert_int_equal(refusal(mr_fake_request("a", &wrong, 1)), MR_INVALID_TOKEN_ID);
    struct mr_request *request = mr_fake_request("a", prompt, 4);
    request->max_tokens = 0;
    assert_int_equal(refusal(request), MR_INVALID_REQUEST);
    request = mr_fake_request("a", prompt, 4);
    request->stop_token_ids = &wrong;
    request->stop_token_count = 1;
    assert_int_equal(refusal(request), MR_INVALID_TOKEN_ID);
    request = mr_fake_request("a", prompt, 4);
    struct mr_logit_bias bias = {.token_id = wrong, .bias = 1.0f};
    request->sampling.logit_bias = &bias;
    request->sampling.logit_bias_count = 1;
    assert_int_equal(refusal(request), MR_INVALID_TOKEN_ID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_has_the_prompt_and_room_for_its_answer),
        cmocka_unit_test(the_context_bounds_the_answer),
        cmocka_unit_test(seeds_come_from_the_request_or_its_id),
        cmocka_unit_test(tenants_have_different_roots),
        cmocka_unit_test(a_request_without_temperature_gets_the_models_defaults),
        cmocka_unit_test(a_sample_row_says_where_it_stands),
        cmocka_unit_test(a_row_that_depends_on_the_output_is_not_sampled_ahead),
        cmocka_unit_test(bad_words_are_banned_with_and_without_a_space),
        cmocka_unit_test(what_can_never_run_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
