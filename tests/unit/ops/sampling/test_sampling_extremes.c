/* Every sampling field at its extremes, alone and with the others, over logits of every kind: each
 * sample is a token that the request allows, or is marked as failed because the model's logits are
 * not numbers. */
#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/sampler.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define VOCAB_MAX 1003u
#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* Among the temperatures: those whose inverse, or its product with a constant of the histogram,
 * overflows a float. */
static const float temperatures[] = {0,      1e-45f, 3e-39f, 1e-38f, 1e-37f, 1.9e-37f, 2.0e-37f,
                                     1e-30f, 1e-6f,  1e-5f,  0.01f,  1,      100};
static const float parts[] = {1e-45f, 1e-38f, 1e-9f, 0.3f, 0.99999994f, 1};
static const float min_parts[] = {0, 1e-45f, 1e-9f, 0.5f, 0.99999994f, 1};
static const float repetitions[] = {1e-45f, 1e-6f, 0.5f, 1, 1.5f, 100};
static const float penalties[] = {-2, 0, 2};
static const float biases[] = {-100, -1e-45f, 0, 100};

enum kind {
    NORMAL,
    EQUAL,
    ZERO,
    HUGE_SPREAD,
    HUGE_EQUAL,
    TINY_SPREAD,
    SOME_MASKED,
    ONE_LEFT,
    SOUND_KINDS, /* the kinds below are not numbers */
    ALL_MASKED = SOUND_KINDS,
    ONE_NAN,
    LAST_NAN,
    ALL_NAN,
    ONE_INFINITE,
    ALL_INFINITE,
    KINDS
};

struct rig {
    uint64_t state;
    float logits[VOCAB_MAX];
    uint32_t vocab_size;
    struct mr_sampling sampling;
    struct mr_logit_bias bias[8];
    uint32_t allowed[4], suppressed[4], history[12], bad_word[2], bad_word_count;
    const uint32_t *bad_words[1];
};

static uint32_t below(struct rig *rig, uint32_t bound)
{
    return (uint32_t)((number_next(&rig->state) + 1.0f) * 8388608.0f) % bound;
}

static float one_of(struct rig *rig, const float *values, size_t count)
{
    return values[below(rig, (uint32_t)count)];
}

static float logit_of(struct rig *rig, enum kind kind)
{
    switch (kind) {
    case EQUAL:
        return -3.5f;
    case ZERO:
        return 0.0f;
    case HUGE_SPREAD:
        return number_next(&rig->state) * FLT_MAX;
    case HUGE_EQUAL:
        return FLT_MAX;
    case TINY_SPREAD:
        return number_next(&rig->state) * 1e-42f;
    case SOME_MASKED:
        return below(rig, 2) == 0 ? -INFINITY : number_next(&rig->state);
    case ONE_LEFT:
    case ALL_MASKED:
        return -INFINITY;
    case ALL_NAN:
        return NAN;
    case ALL_INFINITE:
        return INFINITY;
    default:
        return 20.0f * number_next(&rig->state);
    }
}

static void fill_logits(struct rig *rig, enum kind kind)
{
    for (uint32_t i = 0; i < rig->vocab_size; i++)
        rig->logits[i] = logit_of(rig, kind);
    if (kind == SOME_MASKED || kind == ONE_LEFT) rig->logits[below(rig, rig->vocab_size)] = -1.0f;
    if (kind == ONE_NAN) rig->logits[below(rig, rig->vocab_size)] = NAN;
    if (kind == LAST_NAN) rig->logits[rig->vocab_size - 1] = NAN;
    if (kind == ONE_INFINITE) rig->logits[below(rig, rig->vocab_size)] = INFINITY;
}

static void fill_sampling(struct rig *rig)
{
    const uint32_t vocab = rig->vocab_size;
    const uint32_t top_ks[] = {0, 1, 2, vocab - 1, vocab, UINT32_MAX};
    rig->sampling = (struct mr_sampling){
        .temperature = one_of(rig, temperatures, LENGTH(temperatures)),
        .top_k = top_ks[below(rig, LENGTH(top_ks))],
        .top_p = one_of(rig, parts, LENGTH(parts)),
        .min_p = one_of(rig, min_parts, LENGTH(min_parts)),
        .typical_p = one_of(rig, parts, LENGTH(parts)),
        .repetition_penalty = one_of(rig, repetitions, LENGTH(repetitions)),
        .presence_penalty = one_of(rig, penalties, LENGTH(penalties)),
        .frequency_penalty = one_of(rig, penalties, LENGTH(penalties)),
        .logit_bias = rig->bias,
        .logit_bias_count = below(rig, 2) * below(rig, LENGTH(rig->bias)),
        .allowed_token_ids = rig->allowed,
        .allowed_token_count = below(rig, 2) * below(rig, LENGTH(rig->allowed)),
        .logprobs = (int32_t)below(rig, MR_LOGPROBS_MAX + 2) - 1,
    };
    for (uint32_t i = 0; i < LENGTH(rig->bias); i++)
        rig->bias[i] =
            (struct mr_logit_bias){below(rig, vocab), one_of(rig, biases, LENGTH(biases))};
    for (uint32_t i = 0; i < LENGTH(rig->allowed); i++) {
        rig->allowed[i] = below(rig, vocab);
        rig->suppressed[i] = below(rig, vocab);
    }
    for (uint32_t i = 0; i < LENGTH(rig->history); i++)
        rig->history[i] = below(rig, 4) == 0 ? rig->history[0] : below(rig, vocab);
    rig->bad_words[0] = rig->bad_word;
    rig->bad_word_count = 1 + below(rig, 2);
    for (uint32_t i = 0; i < 2; i++)
        rig->bad_word[i] = below(rig, 2) ? rig->history[LENGTH(rig->history) - 1] : below(rig, 5);
}

static struct mr_sample_row make_row(struct rig *rig)
{
    const uint64_t seeds[] = {0, 1, UINT64_MAX};
    const uint32_t positions[] = {0, 1, UINT32_MAX};
    const uint32_t count = below(rig, LENGTH(rig->history) + 1);
    return (struct mr_sample_row){
        .logits = rig->logits,
        .sampling = &rig->sampling,
        .seed = seeds[below(rig, 3)],
        .position = positions[below(rig, 3)],
        .history = rig->history,
        .history_count = count,
        .prompt_count = count / 2,
        .suppressed = rig->suppressed,
        .suppressed_count = below(rig, 2) * below(rig, LENGTH(rig->suppressed)),
        .bad_words = rig->bad_words,
        .bad_word_counts = &rig->bad_word_count,
        .bad_word_count = below(rig, 2),
    };
}

static bool is_among(const uint32_t *ids, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* True when the request and the model permit the token. Only bad words of one token are checked. */
static bool is_permitted(const struct mr_sample_row *row, uint32_t id)
{
    const struct mr_sampling *sampling = row->sampling;
    if (row->logits[id] == -INFINITY || is_among(row->suppressed, row->suppressed_count, id))
        return false;
    if (row->bad_word_count > 0 && row->bad_word_counts[0] == 1 && row->bad_words[0][0] == id)
        return false;
    return sampling->allowed_token_count == 0 ||
           is_among(sampling->allowed_token_ids, sampling->allowed_token_count, id);
}

static void check_sample(const struct rig *rig, const struct mr_sample_row *row,
                         const struct mr_sample *out)
{
    bool any = false;
    assert_true(out->token_id < rig->vocab_size);
    assert_true(out->probability >= 0.0f && out->probability <= 1.0f);
    assert_true(out->top_count <= MR_LOGPROBS_MAX);
    for (uint32_t id = 0; id < rig->vocab_size; id++)
        any = any || is_permitted(row, id);
    /* a word of two tokens, or an edit that overflows, may have masked the last permitted token */
    if (any && out->probability > 0.0f) assert_true(is_permitted(row, out->token_id));
}

static void check_kind(struct mr_sampler *sampler, struct rig *rig, enum kind kind)
{
    struct mr_sample one, again;
    fill_logits(rig, kind);
    fill_sampling(rig);
    const struct mr_sample_row row = make_row(rig);
    mr_sampler_run(sampler, &row, 1, &one);
    assert_int_equal(one.failed, kind >= SOUND_KINDS);
    if (one.failed) return;
    check_sample(rig, &row, &one);
    mr_sampler_run(sampler, &row, 1, &again);
    assert_int_equal(one.token_id, again.token_id);
}

static void every_setting_at_its_extremes_gives_a_token_or_says_that_it_cannot(void **state)
{
    (void)state;
    static struct rig rig;
    const uint32_t vocabs[] = {1, 5, 16, VOCAB_MAX};
    EACH_LEVEL (level)
        for (size_t v = 0; v < LENGTH(vocabs); v++) {
            struct mr_sampler *sampler;
            struct mr_error err;
            const struct mr_sampler_spec spec = {
                .vocab_size = vocabs[v], .thread_count = 2, .level = level};
            assert_int_equal(mr_sampler_create(&sampler, &spec, &err), MR_OK);
            rig.vocab_size = vocabs[v];
            rig.state = 4711 + v;
            for (int round = 0; round < 400; round++)
                for (int kind = 0; kind < KINDS; kind++)
                    check_kind(sampler, &rig, (enum kind)kind);
            mr_sampler_destroy(sampler);
        }
}

/* A request from a bug report: the inverse of its temperature overflows in the histogram. */
static void a_temperature_near_zero_is_greedy_with_every_cut(void **state)
{
    (void)state;
    struct mr_sampler *sampler;
    struct mr_error err;
    float logits[100];
    uint64_t seed = 9;
    const struct mr_sampler_spec spec = {.vocab_size = 100, .thread_count = 2};
    assert_int_equal(mr_sampler_create(&sampler, &spec, &err), MR_OK);
    for (uint32_t i = 0; i < 100; i++)
        logits[i] = number_next(&seed);
    logits[42] = 2.0f;
    for (size_t i = 0; i < LENGTH(temperatures); i++)
        for (uint32_t cut = 0; cut < 5 && temperatures[i] < MR_GREEDY_BELOW; cut++) {
            const struct mr_sampling sampling = {.temperature = temperatures[i],
                                                 .top_k = cut == 1,
                                                 .top_p = cut == 2 ? 1e-45f : 1,
                                                 .min_p = cut == 3 ? 1 : 0,
                                                 .typical_p = cut == 4 ? 1e-45f : 1,
                                                 .repetition_penalty = 1,
                                                 .logprobs = -1};
            const struct mr_sample_row row = {.logits = logits, .sampling = &sampling};
            struct mr_sample out;
            mr_sampler_run(sampler, &row, 1, &out);
            assert_int_equal(out.token_id, 42);
        }
    mr_sampler_destroy(sampler);
}

int main(void)
{
    struct mr_error err;
    if (mr_parallel_set_thread_count(2, &err) != MR_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_at_its_extremes_gives_a_token_or_says_that_it_cannot),
        cmocka_unit_test(a_temperature_near_zero_is_greedy_with_every_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
