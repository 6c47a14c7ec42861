/* A tenant cannot take blocks or time from another tenant that is below its share. */
#include "tests/fakes/engine_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define RED        0u
#define BLUE       1u
#define STEPS_MAX  3u /* steps in which an owed request must have its first token */
#define PROMPT_MAX 6000u
#define MEDIUM     1900u
#define OUTPUT     480u /* answers that grow from one block to two */

static void prepare(struct engine_rig *rig, uint32_t pool_tokens)
{
    rig_init(rig);
    rig->options.block_count = RIG_BLOCKS(pool_tokens);
    rig->options.sequences_max = 16;
    rig->options.queue_count_max = 256;
    rig->options.tenant_count = 2;
    rig->options.context_tokens = PROMPT_MAX + OUTPUT;
}

static void start(struct engine_rig *rig, uint32_t pool_tokens)
{
    prepare(rig, pool_tokens);
    rig_start(rig);
}

/* Steps until the request has its first token; returns the number of steps. */
static uint32_t steps_to_first_token(struct engine_rig *rig, uint64_t ticket)
{
    uint32_t steps = 0;
    for (; rig->seen[ticket].choices[0].streamed_count == 0 && steps < 1000; steps++)
        rig_step(rig);
    return steps;
}

static void end(struct engine_rig *rig)
{
    rig_run(rig);
    rig_end(rig);
}

/* Red's answers end early: it cancels them. */
static void teach_short_answers(struct engine_rig *rig)
{
    for (uint64_t i = 0; i < 60; i++) {
        char id[16];
        snprintf(id, sizeof id, "%u", (unsigned)i);
        rig_submit_prompt(rig, i, RED, i, 20, OUTPUT);
        while (rig->seen[i].choices[0].streamed_count == 0)
            rig_step(rig);
        assert_true(mr_engine_cancel(rig->engine, RED, (struct mr_text){id, strlen(id)}));
        rig_run(rig);
    }
}

/* Red's answers hold 12 of 14 blocks and are now predicted to need 24.
 */
static void a_forecast_of_other_tenants_keeps_nobody_waiting(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 14 * 256);
    teach_short_answers(&rig);
    for (uint64_t i = 60; i < 72; i++)
        rig_submit_prompt(&rig, i, RED, i, 20, OUTPUT);
    while (rig.seen[71].choices[0].streamed_count < 215)
        rig_step(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).running, 12);
    for (uint64_t ticket = 100; ticket < 103; ticket++) {
        rig_submit_prompt(&rig, ticket, BLUE, ticket, 20, 3);
        assert_in_range(steps_to_first_token(&rig, ticket), 1, STEPS_MAX);
        while (rig.seen[ticket].results == 0)
            rig_step(&rig);
    }
    end(&rig);
}

/* Red's answers hold the whole pool when blue's request comes. */
static void blocks_above_the_share_are_freed_for_a_tenant_that_runs_nothing(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 3072);
    for (uint64_t i = 0; i < 8; i++)
        rig_submit_prompt(&rig, i, RED, i, 20, OUTPUT);
    while (mr_engine_stats(rig.engine).cache.held_count < RIG_BLOCKS(3072))
        assert_true(rig_step(&rig));
    rig_submit_prompt(&rig, 100, BLUE, 100, 20, 3);
    assert_in_range(steps_to_first_token(&rig, 100), 1, STEPS_MAX);
    assert_true(mr_engine_stats(rig.engine).preemptions > 0);
    end(&rig);
}

static void a_flood_of_medium_prompts_delays_no_first_request(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 65536);
    for (uint64_t i = 0; i < 60; i++)
        rig_submit_prompt(&rig, i, RED, i, MEDIUM - (uint32_t)i, 2);
    for (uint64_t ticket = 100; ticket < 110; ticket++) {
        for (int i = 0; i < 3; i++)
            rig_step(&rig);
        rig_submit_prompt(&rig, ticket, BLUE, ticket, 20, 1);
        assert_in_range(steps_to_first_token(&rig, ticket), 1, 1);
    }
    end(&rig);
}

static void submit_scored(struct engine_rig *rig, uint64_t ticket, uint32_t count)
{
    char id[16];
    uint32_t tokens[MEDIUM];
    rig_tokens(rig, ticket, tokens, count);
    snprintf(id, sizeof id, "%u", (unsigned)ticket);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->scores_prompt = true;
    request->max_tokens = 1;
    const struct mr_submission submission = {
        .request = request, .ticket = ticket, .tenant = "", .tenant_index = RED};
    assert_int_equal(rig_submit_as(rig, submission), MR_OK);
}

/* The 64 rows that a step may score take twice its target of 250 ms. Red has sent plain prompts
 * too, so the times of its chunks do not tell what a scored row takes. */
static void a_flood_of_scored_prompts_keeps_steps_short(void **state)
{
    (void)state;
    struct engine_rig rig;
    prepare(&rig, 65536);
    rig.options.step_target_ms = MR_STEP_TARGET_AUTO;
    rig.fake_options.score_ms = 8;
    rig_start(&rig);
    for (uint64_t i = 0; i < 20; i++) {
        submit_scored(&rig, 2 * i, MEDIUM - (uint32_t)i);
        rig_submit_prompt(&rig, 2 * i + 1, RED, 2 * i + 1, MEDIUM, 1);
    }
    while (rig.seen[9].results == 0) /* the cost model learns */
        rig_step(&rig);
    double longest_ms = 0;
    for (uint64_t ticket = 100; ticket < 110; ticket++) {
        rig_submit_prompt(&rig, ticket, BLUE, ticket, 20, 1);
        const uint64_t begin_ns = rig.fake->now_ns;
        assert_in_range(steps_to_first_token(&rig, ticket), 1, 1);
        longest_ms = fmax(longest_ms, (double)(rig.fake->now_ns - begin_ns) / 1e6);
        for (int i = 0; i < 5; i++)
            rig_step(&rig);
    }
    printf("longest step %.0f ms\n", longest_ms);
    assert_true(longest_ms < 1.1 * 250);
    end(&rig);
}

/* Blue's prompt is computed at half the full speed from the first step on. */
static void a_long_first_prompt_starts_while_another_tenant_computes_one(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 65536);
    for (uint64_t i = 0; i < 5; i++)
        rig_submit_prompt(&rig, i, RED, i, PROMPT_MAX - (uint32_t)i, 2);
    for (int i = 0; i < 6; i++)
        rig_step(&rig);
    rig_submit_prompt(&rig, 100, BLUE, 100, 1024, 1);
    for (uint32_t i = 0; i < 3; i++)
        rig_step(&rig);
    assert_int_equal(rig.seen[100].chunk_count, 3); /* a part of each step */
    assert_in_range(steps_to_first_token(&rig, 100), 1, STEPS_MAX + 4);
    end(&rig);
}

/* Red computes a long prompt and prompts of less than a block. Blue's short prompt gets half of the
 * 64 tokens of a step. */
static void short_prompts_of_one_tenant_delay_no_short_prompt_of_another(void **state)
{
    (void)state;
    struct engine_rig rig;
    prepare(&rig, 65536);
    rig.options.chunk_tokens = 64;
    rig_start(&rig);
    rig_submit_prompt(&rig, 0, RED, 0, PROMPT_MAX, 1);
    rig_step(&rig);
    for (uint64_t i = 1; i < 20; i++)
        rig_submit_prompt(&rig, i, RED, i, MR_BLOCK_TOKENS - (uint32_t)i % 8, 1);
    for (int i = 0; i < 3; i++)
        rig_step(&rig);
    rig_submit_prompt(&rig, 100, BLUE, 100, MR_BLOCK_TOKENS, 1);
    assert_in_range(steps_to_first_token(&rig, 100), 1, MR_BLOCK_TOKENS / 32 + 2);
    end(&rig);
}

/* Expected lengths are learnt for each tenant separately. */
static void each_tenant_has_its_own_forecast(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 12 * MR_BLOCK_TOKENS);
    teach_short_answers(&rig);
    for (uint64_t i = 100; i < 110; i++) /* from one block to two, for every block size */
        rig_submit_prompt(&rig, i, BLUE, i, MR_BLOCK_TOKENS * 20 / 256,
                          MR_BLOCK_TOKENS * 480 / 256);
    rig_run(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 0);
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forecast_of_other_tenants_keeps_nobody_waiting),
        cmocka_unit_test(blocks_above_the_share_are_freed_for_a_tenant_that_runs_nothing),
        cmocka_unit_test(a_flood_of_medium_prompts_delays_no_first_request),
        cmocka_unit_test(a_flood_of_scored_prompts_keeps_steps_short),
        cmocka_unit_test(a_long_first_prompt_starts_while_another_tenant_computes_one),
        cmocka_unit_test(short_prompts_of_one_tenant_delay_no_short_prompt_of_another),
        cmocka_unit_test(each_tenant_has_its_own_forecast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
