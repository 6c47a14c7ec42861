#include "batching/base/budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* SmolLM2-135M in bf16: 30 layers, 3 KV heads of 64. */
static const uint64_t small_model = 23040;

/* Real use: KV of the tokens, and the activations of the rows in the step. */
static void the_estimate_is_never_below_and_at_most_a_block_above(void **state)
{
    (void)state;
    struct mr_memory_geometry geometry = {small_model, 40000};
    for (uint64_t tokens = 1; tokens < 3000; tokens += 37) {
        uint64_t real = tokens * small_model + tokens * 40000;
        uint64_t estimate = mr_memory_estimate(&geometry, tokens, tokens);
        assert_true(estimate >= real);
        assert_true(estimate <= real + real / 10 + MR_BLOCK_TOKENS * small_model);
    }
}

static void a_huge_estimate_saturates(void **state)
{
    (void)state;
    struct mr_memory_geometry geometry = {UINT64_MAX / 4, UINT64_MAX / 4};
    assert_true(mr_memory_estimate(&geometry, 100, 100) == UINT64_MAX);
}

static void count_and_bytes_both_bound_a_prefill_batch(void **state)
{
    (void)state;
    struct mr_prefill_budget budget = {.count_max = 3, .bytes_max = 100};
    mr_prefill_budget_take(&budget, 60);
    assert_false(mr_prefill_budget_fits(&budget, 41));
    assert_true(mr_prefill_budget_fits(&budget, 40));
    mr_prefill_budget_take(&budget, 20);
    mr_prefill_budget_take(&budget, 20);
    assert_false(mr_prefill_budget_fits(&budget, 0));
}

static void a_prompt_larger_than_the_budget_runs_alone(void **state)
{
    (void)state;
    struct mr_prefill_budget budget = {.count_max = 8, .bytes_max = 100};
    assert_true(mr_prefill_budget_fits(&budget, 500));
    mr_prefill_budget_take(&budget, 500);
    assert_false(mr_prefill_budget_fits(&budget, 0));
}

static void taking_what_does_not_fit_is_a_bug(void **state)
{
    (void)state;
    struct mr_prefill_budget budget = {.count_max = 1, .bytes_max = 100};
    mr_prefill_budget_take(&budget, 1);
    expect_assert_failure(mr_prefill_budget_take(&budget, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_estimate_is_never_below_and_at_most_a_block_above),
        cmocka_unit_test(a_huge_estimate_saturates),
        cmocka_unit_test(count_and_bytes_both_bound_a_prefill_batch),
        cmocka_unit_test(a_prompt_larger_than_the_budget_runs_alone),
        cmocka_unit_test(taking_what_does_not_fit_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
