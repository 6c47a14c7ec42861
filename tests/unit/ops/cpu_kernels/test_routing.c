/* Compares the choice of experts and their weights to a computation in double. */
#include "ops/cpu_kernels/expert_kernels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void the_largest_logits_are_chosen_in_order(void **state)
{
    (void)state;
    enum { ROWS = 150, COUNT = 37, TOP = 8 };
    static float logits[ROWS * COUNT], weights[ROWS * TOP];
    static uint32_t experts[ROWS * TOP];
    uint64_t seed = 11;
    for (int i = 0; i < ROWS * COUNT; i++)
        logits[i] = roundf(number_next(&seed) * 40.0f) / 8.0f; /* some are equal */
    for (int normalize = 0; normalize < 2; normalize++) {
        const struct mr_cpu_routing routing = {
            .expert_count = COUNT, .top_k = TOP, .normalize = normalize != 0};
        mr_cpu_route(&routing, logits, ROWS, experts, weights);
        for (int r = 0; r < ROWS; r++) {
            const float *row = logits + r * COUNT;
            const uint32_t *ids = experts + r * TOP;
            bool chosen[COUNT] = {false};
            double all = 0.0, sum = 0.0;
            for (int i = 0; i < TOP; i++) {
                if (i > 0)
                    assert_true(row[ids[i]] < row[ids[i - 1]] ||
                                (row[ids[i]] == row[ids[i - 1]] && ids[i] > ids[i - 1]));
                chosen[ids[i]] = true;
                sum += exp((double)row[ids[i]]);
            }
            for (uint32_t e = 0; e < COUNT; e++) {
                const uint32_t last = ids[TOP - 1];
                all += exp((double)row[e]);
                if (!chosen[e])
                    assert_true(row[e] < row[last] || (row[e] == row[last] && e > last));
            }
            for (int i = 0; i < TOP; i++) {
                const double want = exp((double)row[ids[i]]) / (normalize ? sum : all);
                assert_true(fabs(want - (double)weights[r * TOP + i]) <= 3e-7 * want);
            }
        }
    }
}

/* Two groups of two are kept of four groups; the bias changes the choice, never the weights. */
static void biased_sigmoid_scores_choose_within_the_best_groups(void **state)
{
    (void)state;
    const float logits[8] = {2.0f, -3.0f, 1.0f, 1.0f, 0.5f, 0.5f, 1.5f, -4.0f};
    const float bias[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.5f, 0.25f, 0.0f, 0.0f};
    struct mr_cpu_routing routing = {.expert_count = 8,
                                     .top_k = 3,
                                     .sigmoid = true,
                                     .normalize = true,
                                     .group_pairs = true,
                                     .group_count = 4,
                                     .groups_kept = 2,
                                     .bias = bias,
                                     .scale = 2.5f};
    uint32_t ids[3];
    float weights[3];
    double scores[8];
    for (int i = 0; i < 8; i++)
        scores[i] = 1.0 / (1.0 + exp(-(double)logits[i]));
    /* Sums of two: 0.93, 1.46, 1.99, 0.84; the best single expert, of group 0, is not chosen. */
    const uint32_t pairs[3] = {4, 5, 2};
    mr_cpu_route(&routing, logits, 1, ids, weights);
    assert_memory_equal(ids, pairs, sizeof(ids));
    const double sum = scores[4] + scores[5] + scores[2];
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)weights[i] - 2.5 * scores[pairs[i]] / sum) < 1e-6);
    /* Best of each group: 0.88, 0.73, 1.12, 0.82. */
    const uint32_t best[3] = {4, 0, 5};
    routing.group_pairs = routing.normalize = false;
    routing.scale = 0.0f;
    mr_cpu_route(&routing, logits, 1, ids, weights);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs((double)weights[i] - scores[ids[i]]) < 1e-6);
    }
    assert_memory_equal(ids, best, sizeof(ids));
}

static void groups_of_a_softmax_keep_the_weights_of_all_experts(void **state)
{
    (void)state;
    const float logits[6] = {3.0f, 0.0f, 2.5f, 2.4f, -1.0f, 1.0f};
    const struct mr_cpu_routing routing = {
        .expert_count = 6, .top_k = 2, .group_count = 3, .groups_kept = 1, .scale = 16.0f};
    uint32_t ids[2];
    float weights[2];
    double all = 0.0;
    for (int i = 0; i < 6; i++)
        all += exp((double)logits[i]);
    mr_cpu_route(&routing, logits, 1, ids, weights);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ids[i], i);
        const double want = 16.0 * exp((double)logits[i]) / all;
        assert_true(fabs((double)weights[i] - want) < 1e-5);
    }
}

/* Experts 0 and 2 are within 10 % of each other; expert 1 is more than 10 % below expert 2. */
static void a_sparse_mixer_weights_each_choice_by_the_logits_near_it(void **state)
{
    (void)state;
    const float logits[4] = {2.0f, 1.5f, 1.9f, -3.0f};
    const struct mr_cpu_routing routing = {.expert_count = 4, .top_k = 2, .mixer_margin = 0.1f};
    uint32_t ids[2];
    float weights[2];
    mr_cpu_route(&routing, logits, 1, ids, weights);
    assert_true(ids[0] == 0 && ids[1] == 2);
    assert_true(fabs((double)weights[0] - 1.0 / (1.0 + exp(-0.1))) < 1e-6);
    assert_true(weights[1] == 1.0f);
}

static void check_route(const float *logits, bool normalize, const uint32_t *want_ids,
                        const double *want)
{
    const struct mr_cpu_routing routing = {.expert_count = 4, .top_k = 2, .normalize = normalize};
    uint32_t experts[2];
    float weights[2];
    mr_cpu_route(&routing, logits, 1, experts, weights);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(experts[i], want_ids[i]);
        assert_true(fabs((double)weights[i] - want[i]) < 1e-6);
    }
}

static void nan_is_lowest_and_weights_are_finite(void **state)
{
    (void)state;
    check_route((const float[]){NAN, 1, NAN, 1}, true, (const uint32_t[]){1, 3},
                (const double[]){0.5, 0.5});
    check_route((const float[]){NAN, NAN, 2, NAN}, false, (const uint32_t[]){2, 0},
                (const double[]){1, 0});
    check_route((const float[]){NAN, NAN, NAN, NAN}, true, (const uint32_t[]){0, 1},
                (const double[]){0.5, 0.5});
    check_route((const float[]){-INFINITY, 0, INFINITY, 1e38f}, true, (const uint32_t[]){2, 3},
                (const double[]){1, 0});
    check_route((const float[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY}, false,
                (const uint32_t[]){0, 1}, (const double[]){0.25, 0.25});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_logits_are_chosen_in_order),
        cmocka_unit_test(biased_sigmoid_scores_choose_within_the_best_groups),
        cmocka_unit_test(groups_of_a_softmax_keep_the_weights_of_all_experts),
        cmocka_unit_test(a_sparse_mixer_weights_each_choice_by_the_logits_near_it),
        cmocka_unit_test(nan_is_lowest_and_weights_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
