#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/sampler.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_sampler *make(uint32_t vocab_size, enum mr_cpu_level level)
{
    struct mr_sampler *sampler;
    struct mr_error err;
    const struct mr_sampler_spec spec = {
        .vocab_size = vocab_size, .thread_count = 2, .level = level};
    assert_int_equal(mr_sampler_create(&sampler, &spec, &err), MR_OK);
    return sampler;
}

static struct mr_sampling plain(float temperature)
{
    return (struct mr_sampling){.temperature = temperature,
                                .top_p = 1,
                                .typical_p = 1,
                                .repetition_penalty = 1,
                                .logprobs = -1};
}

static struct mr_sample sample(struct mr_sampler *sampler, const float *logits,
                               const struct mr_sampling *sampling, uint32_t position)
{
    const struct mr_sample_row row = {
        .logits = logits, .sampling = sampling, .seed = 42, .position = position};
    struct mr_sample out;
    mr_sampler_run(sampler, &row, 1, &out);
    return out;
}

static void greedy_takes_the_lowest_of_the_largest(void **state)
{
    (void)state;
    float *logits = malloc(5003 * sizeof *logits);
    const struct mr_sampling greedy = plain(0);
    EACH_LEVEL (level) {
        struct mr_sampler *sampler = make(5003, level);
        for (uint32_t at = 0; at < 5003; at += 71) {
            for (uint32_t i = 0; i < 5003; i++)
                logits[i] = i == at || i == 5002 ? 3.0f : i % 5 == 0 ? -INFINITY : -1.0f;
            assert_int_equal(sample(sampler, logits, &greedy, 0).token_id, at);
        }
        mr_sampler_destroy(sampler);
    }
    free(logits);
}

/* Chi-square test of 20,000 draws against exact probabilities; bar: the critical value at 1e-6. */
static void check_draws(const struct mr_sampling *sampling, const float *logits, uint32_t vocab,
                        const double *wanted, double bar)
{
    enum { DRAWS = 20000 };
    struct mr_sampler *sampler = make(vocab, MR_CPU_BEST);
    uint32_t *seen = calloc(vocab, sizeof *seen);
    for (uint32_t i = 0; i < DRAWS; i++) {
        const struct mr_sample one = sample(sampler, logits, sampling, i);
        seen[one.token_id]++;
        assert_true(fabs((double)one.probability - wanted[one.token_id]) < 1e-5);
    }
    double chi = 0.0;
    for (uint32_t i = 0; i < vocab; i++) {
        if (wanted[i] == 0.0)
            assert_int_equal(seen[i], 0);
        else
            chi += pow(seen[i] - DRAWS * wanted[i], 2) / (DRAWS * wanted[i]);
    }
    if (chi > bar) fail_msg("chi-square %g, bar %g", chi, bar);
    free(seen);
    mr_sampler_destroy(sampler);
}

/* Sets logits whose probabilities are proportional to i + 1; outside [first, last] wanted is 0. */
static void ramp(float *logits, double *wanted, uint32_t first, uint32_t last)
{
    double total = 0.0;
    for (uint32_t i = 0; i < 16; i++) {
        logits[i] = logf((float)(i + 1)) + 5.0f;
        wanted[i] = i >= first && i <= last ? i + 1 : 0;
        total += wanted[i];
    }
    for (uint32_t i = 0; i < 16; i++)
        wanted[i] /= total;
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    float logits[16];
    double wanted[16];
    struct mr_sampling sampling = plain(1);
    ramp(logits, wanted, 0, 15);
    check_draws(&sampling, logits, 16, wanted, 56.5);
    sampling.temperature = 0.5f; /* squares the probability ratios */
    double total = 0.0;
    for (uint32_t i = 0; i < 16; i++) {
        wanted[i] *= wanted[i];
        total += wanted[i];
    }
    for (uint32_t i = 0; i < 16; i++)
        wanted[i] /= total;
    check_draws(&sampling, logits, 16, wanted, 56.5);
}

static void draws_follow_the_distribution_after_cuts(void **state)
{
    (void)state;
    float logits[16];
    double wanted[16];
    struct mr_sampling sampling = plain(1);
    sampling.top_k = 5;
    ramp(logits, wanted, 11, 15);
    check_draws(&sampling, logits, 16, wanted, 33.4);
    sampling.top_k = 0;
    sampling.top_p = 0.4f; /* 16 + 15 + 14 of 136 is less than 0.4, with 13 it is more */
    ramp(logits, wanted, 12, 15);
    check_draws(&sampling, logits, 16, wanted, 30.7);
    sampling.top_p = 1;
    sampling.min_p = 0.49f; /* keeps i + 1 >= 0.49 * 16 = 7.84 */
    ramp(logits, wanted, 7, 15);
    check_draws(&sampling, logits, 16, wanted, 42.7);
}

/* The vocabulary has several blocks of ids; a few ids, in several blocks, have all the weight. */
static void draws_over_many_blocks_follow_the_distribution(void **state)
{
    (void)state;
    enum { VOCAB = 5000 };
    float *logits = malloc(VOCAB * sizeof *logits);
    double *wanted = calloc(VOCAB, sizeof *wanted);
    const uint32_t heavy[] = {0, 1023, 1024, 3000, 4999};
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = -INFINITY;
    for (uint32_t i = 0; i < 5; i++) {
        logits[heavy[i]] = logf((float)(i + 1));
        wanted[heavy[i]] = (i + 1) / 15.0;
    }
    const struct mr_sampling sampling = plain(1);
    check_draws(&sampling, logits, VOCAB, wanted, 33.4);
    free(wanted);
    free(logits);
}

static void a_draw_depends_on_seed_and_position_alone(void **state)
{
    (void)state;
    enum { ROWS = 64, VOCAB = 3000 };
    struct mr_sampler *sampler = make(VOCAB, MR_CPU_BEST);
    struct mr_sampling sampling = plain(1);
    sampling.top_p = 0.95f;
    float *logits = malloc(VOCAB * sizeof *logits);
    uint64_t seed = 1;
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = 2.0f * number_next(&seed);
    struct mr_sample_row rows[ROWS];
    struct mr_sample together[ROWS], alone;
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (struct mr_sample_row){
            .logits = logits, .sampling = &sampling, .seed = i / 8, .position = i % 8};
    mr_sampler_run(sampler, rows, ROWS, together);
    uint32_t different = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        mr_sampler_run(sampler, &rows[ROWS - 1 - i], 1, &alone);
        assert_int_equal(alone.token_id, together[ROWS - 1 - i].token_id);
        different += together[i].token_id != together[0].token_id;
        assert_true(mr_sampler_uniform(i, 0) != mr_sampler_uniform(i, 1));
        assert_true(mr_sampler_uniform(i, 0) >= 0.0f && mr_sampler_uniform(i, 0) < 1.0f);
    }
    assert_true(different > ROWS / 2);
    free(logits);
    mr_sampler_destroy(sampler);
}

static void log_probabilities_are_the_models_own(void **state)
{
    (void)state;
    enum { VOCAB = 1000 };
    float logits[VOCAB];
    double total = 0.0;
    uint64_t seed = 77;
    for (uint32_t i = 0; i < VOCAB; i++) {
        logits[i] = 5.0f * number_next(&seed);
        total += exp((double)logits[i]);
    }
    struct mr_sampling sampling = plain(0.5f);
    const struct mr_logit_bias bias = {123, 100.0f}; /* makes 123 certain; logprobs ignore it */
    sampling.logit_bias = &bias;
    sampling.logit_bias_count = 1;
    sampling.logprobs = 20;
    EACH_LEVEL (level) {
        struct mr_sampler *sampler = make(VOCAB, level);
        const struct mr_sample one = sample(sampler, logits, &sampling, 0);
        assert_int_equal(one.token_id, 123);
        assert_true(fabs((double)one.logprob - ((double)logits[123] - log(total))) < 1e-4);
        assert_int_equal(one.top_count, 20);
        for (uint32_t i = 0; i < 20; i++) {
            uint32_t better = 0;
            for (uint32_t id = 0; id < VOCAB; id++)
                better += logits[id] > logits[one.top_ids[i]];
            assert_int_equal(better, i);
            assert_true(fabs((double)one.top_logprobs[i] -
                             ((double)logits[one.top_ids[i]] - log(total))) < 1e-4);
        }
        mr_sampler_destroy(sampler);
    }
}

static void a_given_token_is_not_drawn(void **state)
{
    (void)state;
    enum { VOCAB = 5 };
    const float logits[VOCAB] = {1.0f, -INFINITY, 3.0f, 0.5f, 2.0f};
    const double total = exp(1) + exp(3) + exp(0.5) + exp(2);
    struct mr_sampling sampling = plain(0.0f);
    sampling.logprobs = 2;
    struct mr_sampler *sampler = make(VOCAB, MR_CPU_SCALAR);
    for (uint32_t id = 0; id < VOCAB; id++) {
        const struct mr_sample_row row = {
            .logits = logits, .sampling = &sampling, .given = true, .given_id = id};
        struct mr_sample one;
        mr_sampler_run(sampler, &row, 1, &one);
        assert_false(one.failed);
        assert_int_equal(one.token_id, id);
        assert_true(one.top_count == 2 && one.top_ids[0] == 2 && one.top_ids[1] == 4);
        if (id == 1)
            assert_true(one.logprob == -INFINITY);
        else
            assert_true(fabs((double)one.logprob - ((double)logits[id] - log(total))) < 1e-5);
    }
    mr_sampler_destroy(sampler);
}

static void a_small_vocabulary_gives_few_alternatives(void **state)
{
    (void)state;
    const float logits[] = {1.0f, -INFINITY, 3.0f, -INFINITY, 2.0f};
    struct mr_sampling sampling = plain(0);
    sampling.logprobs = 20;
    struct mr_sampler *sampler = make(5, MR_CPU_BEST);
    const struct mr_sample one = sample(sampler, logits, &sampling, 0);
    assert_int_equal(one.top_count, 3);
    assert_int_equal(one.top_ids[0], 2);
    assert_int_equal(one.top_ids[1], 4);
    assert_int_equal(one.top_ids[2], 0);
    mr_sampler_destroy(sampler);
}

static void logits_that_are_not_numbers_give_no_token(void **state)
{
    (void)state;
    const float rows[][4] = {{NAN, NAN, NAN, NAN},
                             {1, NAN, 2, 3},
                             {1, INFINITY, 2, 3},
                             {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    struct mr_sampler *sampler = make(4, MR_CPU_BEST);
    const struct mr_sampling sampling = plain(1);
    for (size_t i = 0; i < 4; i++) {
        const struct mr_sample one = sample(sampler, rows[i], &sampling, 0);
        assert_true(one.failed);
        assert_int_equal(one.token_id, 0);
        assert_true(one.probability == 0.0f && one.logprob == 0.0f);
    }
    mr_sampler_destroy(sampler);
}

static void a_request_that_masks_every_token_gets_its_lowest_allowed_id(void **state)
{
    (void)state;
    const float flat[4] = {1, 1, 1, 1};
    struct mr_sampler *sampler = make(4, MR_CPU_BEST);
    struct mr_sampling sampling = plain(1);
    const uint32_t allowed[] = {3, 2};
    sampling.allowed_token_ids = allowed;
    sampling.allowed_token_count = 2;
    const struct mr_sample_row row = {
        .logits = flat, .sampling = &sampling, .suppressed = allowed, .suppressed_count = 2};
    struct mr_sample out;
    mr_sampler_run(sampler, &row, 1, &out);
    assert_false(out.failed);
    assert_int_equal(out.token_id, 2);
    assert_true(out.probability == 0.0f);
    mr_sampler_destroy(sampler);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    const float logits[4] = {0};
    struct mr_sampler *sampler = make(4, MR_CPU_BEST);
    const struct mr_sampling unresolved = plain(NAN), fine = plain(1);
    struct mr_sample_row row = {.logits = logits, .sampling = &unresolved};
    struct mr_sample out;
    expect_assert_failure(mr_sampler_run(sampler, &row, 1, &out));
    row = (struct mr_sample_row){.sampling = &fine};
    expect_assert_failure(mr_sampler_run(sampler, &row, 1, &out));
    mr_sampler_run(sampler, NULL, 0, NULL);
    mr_sampler_destroy(sampler);
    mr_sampler_destroy(NULL);
}

static struct mr_sample masked(struct mr_sampler *sampler, const float *logits,
                               const struct mr_sampling *sampling, const uint64_t *allowed,
                               uint32_t position)
{
    const struct mr_sample_row row = {.logits = logits,
                                      .sampling = sampling,
                                      .seed = 42,
                                      .position = position,
                                      .allowed = allowed};
    struct mr_sample out;
    mr_sampler_run(sampler, &row, 1, &out);
    return out;
}

static void a_mask_of_all_tokens_changes_no_bit(void **state)
{
    (void)state;
    enum { VOCAB = 3001 };
    float logits[VOCAB];
    uint64_t all[VOCAB / 64 + 1];
    memset(all, 0xff, sizeof all);
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = sinf((float)i * 1.7f) * 6.0f;
    struct mr_sampling cases[3] = {plain(0), plain(1), plain(0.7f)};
    cases[2].top_k = 50;
    cases[2].top_p = 0.9f;
    struct mr_sampler *sampler = make(VOCAB, MR_CPU_BEST);
    for (uint32_t i = 0; i < 3000; i++) {
        const struct mr_sample one = sample(sampler, logits, &cases[i % 3], i);
        const struct mr_sample other = masked(sampler, logits, &cases[i % 3], all, i);
        assert_int_equal(one.token_id, other.token_id);
        assert_memory_equal(&one.probability, &other.probability, sizeof one.probability);
        assert_memory_equal(&one.logprob, &other.logprob, sizeof one.logprob);
    }
    mr_sampler_destroy(sampler);
}

/* Draws under a mask follow the softmax over the allowed tokens: chi-square over 100,000 draws, 31
 * degrees of freedom; 84.0 is the critical value at 1e-6. */
static void draws_under_a_mask_follow_the_renormalized_softmax(void **state)
{
    (void)state;
    enum { VOCAB = 200, DRAWS = 100000 };
    float logits[VOCAB];
    uint64_t allowed[4] = {0};
    double wanted[VOCAB] = {0}, total = 0, chi = 0;
    uint32_t seen[VOCAB] = {0};
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = cosf((float)i) * 2.0f;
    for (uint32_t i = 3; i < 3 + 32 * 6; i += 6) {
        allowed[i / 64] |= 1ull << (i % 64);
        wanted[i] = exp((double)logits[i]);
        total += wanted[i];
    }
    const struct mr_sampling sampling = plain(1);
    struct mr_sampler *sampler = make(VOCAB, MR_CPU_BEST);
    for (uint32_t i = 0; i < DRAWS; i++) {
        const struct mr_sample one = masked(sampler, logits, &sampling, allowed, i);
        assert_true(allowed[one.token_id / 64] >> (one.token_id % 64) & 1);
        assert_true(fabs((double)one.probability - wanted[one.token_id] / total) < 1e-5);
        seen[one.token_id]++;
    }
    for (uint32_t i = 0; i < VOCAB; i++)
        if (wanted[i] > 0)
            chi += pow(seen[i] - DRAWS * wanted[i] / total, 2) / (DRAWS * wanted[i] / total);
    if (chi > 84.0) fail_msg("chi-square %g", chi);
    mr_sampler_destroy(sampler);
}

/* Other masks of the request cannot lift the bit mask. */
static void the_bit_mask_holds_when_everything_is_masked(void **state)
{
    (void)state;
    const float logits[70] = {0};
    const uint64_t allowed[2] = {0, 1u << 3 | 1u << 5};
    const uint32_t ids[] = {1, 2};
    struct mr_sampling sampling = plain(1);
    sampling.allowed_token_ids = ids;
    sampling.allowed_token_count = 2;
    struct mr_sampler *sampler = make(70, MR_CPU_BEST);
    assert_int_equal(masked(sampler, logits, &sampling, allowed, 0).token_id, 67);
    mr_sampler_destroy(sampler);
}

int main(void)
{
    struct mr_error err;
    if (mr_parallel_set_thread_count(2, &err) != MR_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_of_all_tokens_changes_no_bit),
        cmocka_unit_test(draws_under_a_mask_follow_the_renormalized_softmax),
        cmocka_unit_test(the_bit_mask_holds_when_everything_is_masked),
        cmocka_unit_test(greedy_takes_the_lowest_of_the_largest),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(draws_follow_the_distribution_after_cuts),
        cmocka_unit_test(draws_over_many_blocks_follow_the_distribution),
        cmocka_unit_test(a_draw_depends_on_seed_and_position_alone),
        cmocka_unit_test(log_probabilities_are_the_models_own),
        cmocka_unit_test(a_given_token_is_not_drawn),
        cmocka_unit_test(a_small_vocabulary_gives_few_alternatives),
        cmocka_unit_test(logits_that_are_not_numbers_give_no_token),
        cmocka_unit_test(a_request_that_masks_every_token_gets_its_lowest_allowed_id),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
