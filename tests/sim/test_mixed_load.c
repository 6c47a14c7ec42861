/* Streams that decode while a long prompt arrives, in virtual time: the longest gap between tokens,
 * the time of the prompt, and that a step allocates no memory. */
#include "tests/fakes/allocations.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define STREAMS   16u
#define LONG      4000u
#define TARGET_MS 60.0
#define AUTO_MS   100.0 /* the minimum of the automatic target */

static void start(struct engine_rig *rig, int32_t chunk_tokens, double target_ms)
{
    rig_init(rig);
    rig->fake_options.history_ms = 1e-4;
    rig->options.sequences_max = 32;
    rig->options.block_count = RIG_BLOCKS(32768);
    rig->options.context_tokens = 5000;
    rig->options.rows_max = 5000;
    rig->options.chunk_tokens = chunk_tokens;
    rig->options.step_target_ms = target_ms;
    rig_start(rig);
}

/* Starts decoding streams, then submits a long prompt. Returns the longest gap of any stream. */
static double longest_gap(int32_t chunk_tokens, double target_ms, double *prompt_ms)
{
    struct engine_rig rig;
    start(&rig, chunk_tokens, target_ms);
    for (uint64_t i = 0; i < STREAMS; i++)
        rig_submit_prompt(&rig, i, 0, i, 40 + 3 * (uint32_t)i, 400);
    for (uint32_t i = 0; i < 60; i++)
        rig_step(&rig);
    rig_submit_prompt(&rig, 20, 0, 20, LONG, 8);
    rig_run(&rig);
    double longest = 0;
    for (uint64_t i = 0; i < STREAMS; i++) {
        const struct rig_seen *seen = &rig.seen[i];
        assert_int_equal(seen->choices[0].token_count, 400);
        longest = seen->result.itl_max_ms > longest ? seen->result.itl_max_ms : longest;
    }
    *prompt_ms = rig.seen[20].result.prefill_ms;
    rig_end(&rig);
    return longest;
}

static void a_long_prompt_keeps_gaps_within_the_target(void **state)
{
    (void)state;
    double prompt_ms;
    double gap = longest_gap(512, TARGET_MS, &prompt_ms);
    printf("target %.0f ms: longest gap %.1f ms, prompt %.0f ms\n", TARGET_MS, gap, prompt_ms);
    assert_true(gap <= 1.1 * TARGET_MS);
    assert_true(prompt_ms < 20000);
}

/* A decode step of 16 streams takes 18 ms here, so the target is 100 ms. A chunk of 512 tokens
 * takes 274 ms. */
static void the_automatic_target_keeps_gaps_short(void **state)
{
    (void)state;
    double prompt_ms, off_ms;
    double gap = longest_gap(512, MR_STEP_TARGET_AUTO, &prompt_ms);
    double off = longest_gap(512, 0, &off_ms);
    printf("automatic target: longest gap %.1f ms, prompt %.0f ms; no target: %.1f ms, %.0f ms\n",
           gap, prompt_ms, off, off_ms);
    assert_true(gap <= 1.1 * AUTO_MS);
    assert_true(off > 2 * AUTO_MS);
    assert_true(prompt_ms < 1.5 * off_ms);
}

static void without_chunking_the_gap_is_the_whole_prefill(void **state)
{
    (void)state;
    double prompt_ms;
    double gap = longest_gap(0, TARGET_MS, &prompt_ms);
    printf("no chunking: longest gap %.0f ms, prompt %.0f ms\n", gap, prompt_ms);
    assert_true(gap > 0.5 * LONG);
    assert_true(gap >= 0.99 * prompt_ms);
}

static void a_target_below_the_decodes_still_lets_the_prompt_end(void **state)
{
    (void)state;
    double prompt_ms;
    double gap = longest_gap(512, 5.0, &prompt_ms);
    printf("target 5 ms: longest gap %.1f ms, prompt %.0f ms\n", gap, prompt_ms);
    assert_true(gap < 40.0);
    assert_true(prompt_ms < 30000);
}

/* ---- a step allocates nothing ---- */

static void a_step_allocates_nothing(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prompt_cache_entries = 4;
    rig.options.block_count = RIG_BLOCKS(3072);
    rig.options.step_target_ms = 30;
    rig.options.force_preempt_every = 5;
    rig_start(&rig);
    uint64_t before = allocations_counted();
    for (uint64_t i = 0; i < 24; i++) {
        rig_submit_prompt(&rig, i, 0, i % 6, 20 + 61 * (uint32_t)(i % 6), 30);
        allocations_count(i % 3 == 0);
        rig_step(&rig);
        allocations_count(false);
    }
    allocations_count(true);
    while (rig_step(&rig))
        ;
    allocations_count(false);
    assert_int_equal(rig.result_count, 24);
    assert_int_equal(allocations_counted(), before);
    assert_true(mr_engine_stats(rig.engine).preemptions > 0);
    assert_true(mr_engine_stats(rig.engine).cached_tokens > 0);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_prompt_keeps_gaps_within_the_target),
        cmocka_unit_test(the_automatic_target_keeps_gaps_short),
        cmocka_unit_test(without_chunking_the_gap_is_the_whole_prefill),
        cmocka_unit_test(a_target_below_the_decodes_still_lets_the_prompt_end),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    allocations_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
