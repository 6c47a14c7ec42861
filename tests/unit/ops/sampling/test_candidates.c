/* Compares each cut to the same cut of a fully sorted vocabulary. */
#include "ops/sampling/candidates.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define VOCAB 5000u

struct sorted_token {
    uint32_t id;
    double probability, key;
};

static int by_key(const void *a, const void *b)
{
    const struct sorted_token *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void renormalize(struct sorted_token *sorted_token, uint32_t count)
{
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++)
        total += sorted_token[i].probability;
    for (uint32_t i = 0; i < count; i++)
        sorted_token[i].probability /= total;
}

static uint32_t keep_mass(struct sorted_token *sorted_token, uint32_t count, double mass)
{
    double sum = 0.0;
    uint32_t kept = 0;
    while (kept < count && sum < mass)
        sum += sorted_token[kept++].probability;
    renormalize(sorted_token, kept);
    return kept;
}

static uint32_t cut_sorted(const struct mr_cpu_search *search,
                           const struct mr_candidates_cuts *cuts, struct sorted_token *sorted_token)
{
    uint32_t count = search->count;
    for (uint32_t i = 0; i < count; i++)
        sorted_token[i] = (struct sorted_token){
            i, exp((double)(search->x[i] - search->top) * (double)search->factor),
            (double)search->x[i]};
    qsort(sorted_token, count, sizeof *sorted_token, by_key);
    if (cuts->top_k > 0 && cuts->top_k < count) count = cuts->top_k;
    renormalize(sorted_token, count);
    if (cuts->top_p < 1.0f) count = keep_mass(sorted_token, count, (double)cuts->top_p);
    const double bar = (double)cuts->min_p * sorted_token[0].probability;
    while (sorted_token[count - 1].probability < bar)
        count--;
    renormalize(sorted_token, count);
    if (cuts->typical_p < 1.0f) {
        double entropy = 0.0;
        for (uint32_t i = 0; i < count; i++)
            entropy -= sorted_token[i].probability * log(sorted_token[i].probability);
        for (uint32_t i = 0; i < count; i++)
            sorted_token[i].key = -fabs(-log(sorted_token[i].probability) - entropy);
        qsort(sorted_token, count, sizeof *sorted_token, by_key);
        count = keep_mass(sorted_token, count, (double)cuts->typical_p);
    }
    return count;
}

/* Checks that both cuts keep the same ids, except at most `slack` ids at the threshold, where
 * rounding decides, and ids of negligible weight. */
static void check_cuts(struct mr_candidates *candidates, const struct mr_cpu_search *search,
                       const struct mr_candidates_cuts *cuts, uint32_t slack)
{
    struct sorted_token *sorted_token = malloc(search->count * sizeof *sorted_token);
    unsigned char *kept = calloc(search->count, 1);
    const uint32_t want = cut_sorted(search, cuts, sorted_token);
    uint32_t count, missing = 0;
    mr_candidates_find(candidates, search, cuts);
    const struct mr_cpu_candidate *list = mr_candidates_list(candidates, &count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || list[i - 1].id < list[i].id);
        assert_true(list[i].logit == search->x[list[i].id]);
        kept[list[i].id] = 1;
    }
    for (uint32_t i = 0; i < want; i++)
        missing += !kept[sorted_token[i].id] &&
                   search->top - search->x[sorted_token[i].id] < 30.0f / search->factor;
    if (missing > slack || count > want + slack)
        fail_msg("k %u p %g min %g typical %g: %u kept, %u wanted, %u missing", cuts->top_k,
                 (double)cuts->top_p, (double)cuts->min_p, (double)cuts->typical_p, count, want,
                 missing);
    free(kept);
    free(sorted_token);
}

static void check_row(struct mr_candidates *candidates, const float *logits, float temperature,
                      uint32_t slack)
{
    static const struct mr_candidates_cuts cuts[] = {
        {1, 1, 0, 1, 0},
        {50, 1, 0, 1, 0},
        {VOCAB, 1, 0, 1, 0},
        {0, 0.1f, 0, 1, 0},
        {0, 0.9f, 0, 1, 0},
        {0, 0.999f, 0, 1, 0},
        {40, 0.8f, 0, 1, 0},
        {0, 1, 0.1f, 1, 0},
        {30, 0.9f, 0.2f, 1, 0},
        {0, 1, 0, 0.5f, 0},
        {100, 0.95f, 0.01f, 0.7f, 0},
        {4000, 0.99f, 0, 1, 0},
    };
    struct mr_cpu_search search = {logits, VOCAB, -INFINITY, 1.0f / temperature};
    for (uint32_t i = 0; i < VOCAB; i++)
        search.top = fmaxf(search.top, logits[i]);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        check_cuts(candidates, &search, &cuts[i], slack);
}

static void every_cut_keeps_the_candidates_that_a_full_sort_keeps(void **state)
{
    (void)state;
    float *logits = malloc(VOCAB * sizeof *logits);
    EACH_LEVEL (level) {
        struct mr_candidates *candidates;
        struct mr_error err;
        uint64_t seed = 11;
        assert_int_equal(mr_candidates_create(&candidates, VOCAB, level, &err), MR_OK);
        for (int round = 0; round < 4; round++) {
            const float spread[] = {0.01f, 1.0f, 4.0f, 12.0f};
            for (uint32_t i = 0; i < VOCAB; i++)
                logits[i] = spread[round] * (number_next(&seed) + number_next(&seed));
            check_row(candidates, logits, 0.7f, 1);
            check_row(candidates, logits, 1.5f, 1);
        }
        mr_candidates_destroy(candidates);
    }
    free(logits);
}

static void among_equals_the_lowest_ids_are_kept(void **state)
{
    (void)state;
    struct mr_candidates *candidates;
    struct mr_error err;
    float *logits = malloc(VOCAB * sizeof *logits);
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = i % 100 == 99 ? 2.0f : 1.0f;
    assert_int_equal(mr_candidates_create(&candidates, VOCAB, MR_CPU_BEST, &err), MR_OK);
    const struct mr_cpu_search search = {logits, VOCAB, 2.0f, 1.0f};
    const struct mr_candidates_cuts cuts = {.top_k = 60, .top_p = 1, .typical_p = 1};
    mr_candidates_find(candidates, &search, &cuts);
    uint32_t count;
    const struct mr_cpu_candidate *list = mr_candidates_list(candidates, &count);
    assert_int_equal(count, 60);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(list[i].id, i);
    check_row(candidates, logits, 1.0f, 2);
    mr_candidates_destroy(candidates);
    free(logits);
}

static void masked_tokens_and_nan_are_no_candidates(void **state)
{
    (void)state;
    struct mr_candidates *candidates;
    struct mr_error err;
    float logits[100];
    for (uint32_t i = 0; i < 100; i++)
        logits[i] = i % 3 == 0 ? 1.0f : i % 3 == 1 ? -INFINITY : NAN;
    assert_int_equal(mr_candidates_create(&candidates, 100, MR_CPU_BEST, &err), MR_OK);
    const struct mr_cpu_search search = {logits, 100, 1.0f, 1.0f};
    for (uint32_t top_k = 0; top_k < 100; top_k += 40) {
        const struct mr_candidates_cuts cuts = {.top_k = top_k, .top_p = 0.999f, .typical_p = 1};
        uint32_t count;
        mr_candidates_find(candidates, &search, &cuts);
        const struct mr_cpu_candidate *list = mr_candidates_list(candidates, &count);
        assert_int_equal(count, 34);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(list[i].id % 3, 0);
    }
    const struct mr_cpu_search broken = {logits, 100, NAN, 1.0f};
    const struct mr_candidates_cuts cuts = {.top_p = 1, .typical_p = 1};
    expect_assert_failure(mr_candidates_find(candidates, &broken, &cuts));
    mr_candidates_destroy(candidates);
    mr_candidates_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_keeps_the_candidates_that_a_full_sort_keeps),
        cmocka_unit_test(among_equals_the_lowest_ids_are_kept),
        cmocka_unit_test(masked_tokens_and_nan_are_no_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
