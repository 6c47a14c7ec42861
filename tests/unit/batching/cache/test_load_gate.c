#include "batching/cache/load_gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

/* A step costs 1 ms and 1 ms a token; a block is 1 MB. */
static struct mr_cost_model plain(void)
{
    struct mr_cost_model cost;
    mr_cost_model_init(&cost);
    for (uint32_t i = 0; i < 4000; i++) {
        struct mr_step_work work = {0};
        uint32_t chunk = 1 + i * 37 % 512;
        mr_step_work_add(&work, i % 7, 100 * (i % 11), true);
        mr_step_work_add(&work, chunk, 512 * (i % 5), false);
        mr_cost_model_observe(&cost, &work, 1.0 + chunk);
    }
    return cost;
}

static struct mr_load_question question(const struct mr_cost_model *cost, double bytes_per_second)
{
    return (struct mr_load_question){
        .cost = cost,
        .rates = {.up = true, .bytes_per_second = bytes_per_second, .round_trip_ns = 100000},
        .known_tokens = 16 * BLOCK + 10,
        .found_blocks = 16,
        .block_bytes = 1000000,
        .chunk_tokens = 2 * BLOCK,
    };
}

static void a_fast_remote_cache_loads_all_of_it(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e9);
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_ALL);
    assert_int_equal(answer.first_block, 0);
    assert_false(answer.extra);
    assert_true(answer.saved_ms > 15 * BLOCK);
    assert_true(answer.wait_ms > 0 && answer.wait_ms < 60);
}

static void a_slow_remote_cache_loads_nothing(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e6 / (20.0 * BLOCK) * 1e3);
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_SLOWER);
    assert_int_equal(answer.first_block, 16);
    assert_false(mr_load_verdict_loads(answer.verdict));
}

static void a_slow_remote_cache_is_probed_with_one_value(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e6 / (20.0 * BLOCK) * 1e3);
    asked.probe = true;
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_PROBE);
    assert_int_equal(answer.first_block, 15);
    assert_true(mr_load_verdict_loads(answer.verdict));
}

static void doing_both_must_gain_over_loading(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 8 * 1e6 / BLOCK * 1e3);
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_ALL);
    assert_int_equal(answer.first_block, 0);
}

static void a_remote_cache_as_fast_as_computing_loads_half(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e6 / BLOCK * 1e3);
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_BACK);
    assert_in_range(answer.first_block, 7, 9);
}

/* Loading slows computing down: it is not worthwhile for an eighth of the blocks, but it is for
 * three of 16. */
static void doing_both_must_gain_over_computing(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e6 / (7.0 * BLOCK) * 1e3);
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_SLOWER);
    asked = question(&cost, 1e6 / (4.0 * BLOCK) * 1e3);
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_BACK);
}

/* When the engine has other work, a load that takes no longer than computing costs nothing. */
static void a_busy_engine_loads_all_it_can(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1.5 * 1e6 / BLOCK * 1e3);
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_BACK);
    asked.busy = true;
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_ALL);
}

static void what_waits_before_it_makes_a_remote_cache_slower(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e9);
    asked.rates.waiting_bytes = (uint64_t)1000 * 1000000u * 16 * BLOCK / 1000;
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_SLOWER);
}

static void an_unmeasured_remote_cache_is_tried_with_short_patience(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 0.0);
    asked.computed_tokens = 3 * BLOCK + 5;
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_TRIAL);
    assert_int_equal(answer.first_block, 3);
    assert_true(answer.wait_ms <= MR_LOAD_TRIAL_MS);
}

/* Before the first step the coefficients describe an arbitrary machine. */
static void before_the_first_step_a_remote_cache_is_tried_however_fast(void **state)
{
    (void)state;
    struct mr_cost_model cost;
    mr_cost_model_init(&cost);
    for (double rate = 1e5; rate < 1e11; rate *= 10) {
        struct mr_load_question asked = question(&cost, rate);
        struct mr_load_answer answer = mr_load_gate_decide(&asked);
        assert_int_equal(answer.verdict, MR_LOAD_TRIAL);
        assert_true(answer.wait_ms <= MR_LOAD_TRIAL_MS);
    }
}

static void a_remote_cache_that_is_down_is_not_tried(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e9);
    asked.rates.up = false;
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_DOWN);
}

static void a_few_tokens_are_not_worth_a_round_trip(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e9);
    asked.computed_tokens = 16 * BLOCK - 10;
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_SHORT);
    asked.found_blocks = 0;
    asked.computed_tokens = 0;
    assert_int_equal(mr_load_gate_decide(&asked).verdict, MR_LOAD_SHORT);
}

static void an_entry_saves_the_end_of_the_prompt(void **state)
{
    (void)state;
    struct mr_cost_model cost = plain();
    struct mr_load_question asked = question(&cost, 1e9);
    asked.known_tokens = 16 * BLOCK + BLOCK / 2;
    asked.extra_bytes = 500000;
    asked.extra_tokens = asked.known_tokens;
    struct mr_load_answer answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.verdict, MR_LOAD_ALL);
    assert_true(answer.extra);
    asked.computed_tokens = 16 * BLOCK; /* all blocks are cached: only the entry is missing */
    asked.known_tokens = 16 * BLOCK + BLOCK - 1;
    answer = mr_load_gate_decide(&asked);
    assert_int_equal(answer.first_block, 16);
    assert_int_equal(answer.extra, BLOCK > 40);
}

static void every_verdict_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < MR_LOAD_VERDICT_COUNT; i++)
        assert_non_null(mr_load_verdict_name((enum mr_load_verdict)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_remote_cache_loads_all_of_it),
        cmocka_unit_test(a_slow_remote_cache_loads_nothing),
        cmocka_unit_test(a_slow_remote_cache_is_probed_with_one_value),
        cmocka_unit_test(doing_both_must_gain_over_loading),
        cmocka_unit_test(a_remote_cache_as_fast_as_computing_loads_half),
        cmocka_unit_test(doing_both_must_gain_over_computing),
        cmocka_unit_test(a_busy_engine_loads_all_it_can),
        cmocka_unit_test(what_waits_before_it_makes_a_remote_cache_slower),
        cmocka_unit_test(an_unmeasured_remote_cache_is_tried_with_short_patience),
        cmocka_unit_test(before_the_first_step_a_remote_cache_is_tried_however_fast),
        cmocka_unit_test(a_remote_cache_that_is_down_is_not_tried),
        cmocka_unit_test(a_few_tokens_are_not_worth_a_round_trip),
        cmocka_unit_test(an_entry_saves_the_end_of_the_prompt),
        cmocka_unit_test(every_verdict_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
