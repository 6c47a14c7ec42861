/* Requests during a prompt of 7,000 tokens in chunks, with times counted in steps: short and urgent
 * requests, cached prompts, preempted sequences and further choices start at once. When no request
 * of these kinds waits, the long prompt is not delayed. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define LONG      7000u
#define CHUNK     (2 * MR_BLOCK_TOKENS)
#define SHORT     (MR_BLOCK_TOKENS - 1)
#define OUTPUT    8u
#define LONG_ID   200u
#define STEPS_MAX 2000u

struct work {
    uint32_t chunk_rows[STEPS_MAX]; /* prefill tokens of each step */
    uint32_t steps;
};

static void init(struct engine_rig *rig)
{
    rig_init(rig);
    rig->options.sequences_max = 8;
    rig->options.block_count = RIG_BLOCKS(65536);
    rig->options.context_tokens = 8192;
    rig->options.rows_max = 2048;
    rig->options.chunk_tokens = (int32_t)CHUNK;
    rig->options.prompt_cache_entries = 8;
}

static void start(struct engine_rig *rig, double step_target_ms)
{
    init(rig);
    rig->options.step_target_ms = step_target_ms;
    rig_start(rig);
}

static void submit_as(struct engine_rig *rig, struct mr_submission submission, uint32_t prompt,
                      uint32_t output, uint32_t choices)
{
    char id[16];
    uint32_t tokens[LONG];
    rig_tokens(rig, submission.ticket, tokens, prompt);
    snprintf(id, sizeof id, "%u", (unsigned)submission.ticket);
    struct mr_request *request = mr_fake_request(id, tokens, prompt);
    request->ignore_eos = true;
    request->max_tokens = output;
    request->choice_count = choices;
    submission.request = request;
    submission.tenant = "";
    assert_int_equal(rig_submit_as(rig, submission), MR_OK);
}

static void submit_to(struct engine_rig *rig, uint32_t tenant, uint64_t ticket, uint32_t prompt,
                      uint32_t output)
{
    submit_as(rig, (struct mr_submission){.ticket = ticket, .tenant_index = tenant}, prompt, output,
              1);
}

static void submit(struct engine_rig *rig, uint64_t ticket, uint32_t prompt, int32_t priority,
                   uint32_t choices)
{
    submit_as(rig, (struct mr_submission){.ticket = ticket, .priority = priority}, prompt, OUTPUT,
              choices);
}

static bool is_long_done(const struct engine_rig *rig)
{
    return rig->seen[LONG_ID].choices[0].streamed_count > 0;
}

/* Steps until the request has its first token, which must be before the long prompt is done. */
static uint32_t steps_to_first_token(struct engine_rig *rig, uint32_t ticket)
{
    for (uint32_t steps = 1; steps < STEPS_MAX; steps++) {
        rig_step(rig);
        if (rig->seen[ticket].choices[0].streamed_count == 0) continue;
        assert_false(is_long_done(rig));
        return steps;
    }
    fail_msg("request %u gets no token", ticket);
    return 0;
}

/* A stream that decodes, and the long prompt with two chunks done. */
static void begin_long(struct engine_rig *rig)
{
    submit(rig, 100, 3, 0, 1);
    rig_step(rig);
    submit(rig, LONG_ID, LONG, 0, 1);
    rig_step(rig);
    rig_step(rig);
    assert_int_equal(mr_engine_stats(rig->engine).prefilling, 1);
}

static void finish(struct engine_rig *rig)
{
    rig_run(rig);
    rig_end(rig);
}

static void a_short_request_has_its_first_token_within_three_steps(void **state)
{
    (void)state;
    const double targets_ms[] = {MR_STEP_TARGET_AUTO, 0, 60};
    for (int32_t priority = 0; priority <= 10; priority += 10)
        for (size_t i = 0; i < 3; i++) {
            struct engine_rig rig;
            start(&rig, targets_ms[i]);
            begin_long(&rig);
            submit(&rig, 0, SHORT < 60 ? SHORT : 60, priority, 1);
            assert_true(steps_to_first_token(&rig, 0) <= 3);
            finish(&rig);
        }
}

static void four_short_requests_do_not_queue_behind_the_prompt(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 0);
    begin_long(&rig);
    for (uint32_t i = 0; i < 4; i++)
        submit(&rig, i, MR_BLOCK_TOKENS / 5, 5, 1);
    for (uint32_t i = 0; i < 3; i++)
        rig_step(&rig);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rig.seen[i].choices[0].streamed_count > 0);
    finish(&rig);
}

/* Also with two more long prompts waiting before it. */
static void a_cached_prompt_has_its_first_token_within_two_steps(void **state)
{
    (void)state;
    for (uint32_t waiting = 0; waiting <= 2; waiting++) {
        struct engine_rig rig;
        start(&rig, 0);
        submit(&rig, 7, 600, 0, 1);
        rig_run(&rig);
        rig.seen[7] = (struct rig_seen){0};
        begin_long(&rig);
        for (uint32_t i = 0; i < waiting; i++)
            submit(&rig, 10 + i, LONG, 0, 1);
        submit(&rig, 7, 600, 0, 1);
        assert_true(steps_to_first_token(&rig, 7) <= 2);
        finish(&rig);
    }
}

/* Other prompts use the tokens reserved for short prompts. A prompt with known logits needs none of
 * them. */
static void a_cached_prompt_does_not_wait_for_tokens(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 0);
    submit(&rig, 7, 600, 0, 1);
    rig_run(&rig);
    rig.seen[7] = (struct rig_seen){0};
    begin_long(&rig);
    submit(&rig, 0, MR_BLOCK_TOKENS, 0, 1);
    submit(&rig, 1, MR_BLOCK_TOKENS, 0, 1);
    submit(&rig, 7, 600, 0, 1);
    rig_step(&rig);
    assert_true(rig.seen[0].choices[0].streamed_count > 0);
    assert_int_equal(rig.seen[1].choices[0].streamed_count, 0);
    assert_true(rig.seen[7].choices[0].streamed_count > 0);
    finish(&rig);
}

static void an_urgent_request_of_two_blocks_starts_beside_the_prompt(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 0);
    begin_long(&rig);
    submit(&rig, 0, CHUNK - 1, 1, 1);
    assert_true(steps_to_first_token(&rig, 0) <= 3);
    submit(&rig, 1, CHUNK - 1, 0, 1); /* not urgent: it waits for the prompt */
    while (!is_long_done(&rig))
        rig_step(&rig);
    assert_int_equal(rig.seen[1].choices[0].streamed_count, 0);
    finish(&rig);
}

static void further_choices_start_beside_the_prompt(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, 0);
    begin_long(&rig);
    submit(&rig, 0, SHORT, 0, 4);
    steps_to_first_token(&rig, 0);
    for (uint32_t i = 0; i < 2; i++)
        rig_step(&rig);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rig.seen[0].choices[i].streamed_count >= 2);
    assert_false(is_long_done(&rig));
    finish(&rig);
}

static void a_preempted_stream_returns_beside_the_prompt(void **state)
{
    (void)state;
    struct engine_rig rig;
    init(&rig);
    rig.options.force_preempt_every = 3; /* the stream, which has the fewest computed tokens */
    rig_start(&rig);
    begin_long(&rig);
    while (rig.seen[100].results == 0)
        rig_step(&rig);
    assert_false(is_long_done(&rig));
    assert_true(mr_engine_stats(rig.engine).preemptions >= 2);
    finish(&rig);
}

/* Four sequences, occupied by the prompt and three long answers of one tenant. */
static void a_tenant_gets_a_place_beside_the_prompt_only_for_what_can_start(void **state)
{
    (void)state;
    struct engine_rig rig;
    init(&rig);
    rig.options.sequences_max = 4;
    rig.options.tenant_count = 2;
    rig_start(&rig);
    for (uint32_t i = 0; i < 3; i++)
        submit_to(&rig, 0, 20 + i, 5, 200);
    rig_step(&rig);
    submit_to(&rig, 0, LONG_ID, LONG, 4);
    rig_step(&rig);
    submit_to(&rig, 1, 2, SHORT, 200); /* the tenant's first request gets a place at once */
    assert_true(steps_to_first_token(&rig, 2) <= 3);
    submit_to(&rig, 1, 0, LONG, 4);
    for (uint32_t i = 0; i < 4; i++)
        rig_step(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 1);
    assert_true(mr_engine_cancel(rig.engine, 1, (struct mr_text){"0", 1}));
    submit_to(&rig, 1, 1, SHORT, 4);
    assert_true(steps_to_first_token(&rig, 1) <= 3);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 2);
    finish(&rig);
}

/* With two long prompts at a time, the preempted stream does not get its sequence back. */
static void a_place_freed_for_a_second_long_prompt_is_kept_for_it(void **state)
{
    (void)state;
    struct engine_rig rig;
    init(&rig);
    rig.options.sequences_max = 2;
    rig.options.prefills_max = 2;
    rig.options.tenant_count = 2;
    rig_start(&rig);
    submit_to(&rig, 0, 20, 5, 200);
    rig_step(&rig);
    submit_to(&rig, 0, LONG_ID, LONG, 4);
    rig_step(&rig);
    submit_to(&rig, 1, 0, LONG, 4);
    for (uint32_t i = 0; i < 4; i++)
        rig_step(&rig);
    assert_int_equal(rig.seen[0].started, 1);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 1);
    finish(&rig);
}

/* Counts the prefill tokens of each step until the long prompt is done. */
static void record_long(struct engine_rig *rig, struct work *work)
{
    work->steps = 0;
    while (!is_long_done(rig)) {
        assert_true(work->steps < STEPS_MAX);
        rig_step(rig);
        work->chunk_rows[work->steps++] = rig->fake->chunk_rows;
    }
}

static void nothing_is_set_aside_when_nothing_short_waits(void **state)
{
    (void)state;
    static struct work work;
    for (uint32_t waiting = 0; waiting <= 2; waiting++) {
        struct engine_rig rig;
        start(&rig, 0);
        begin_long(&rig);
        for (uint32_t i = 0; i < waiting; i++)
            submit(&rig, i, LONG, 0, 1);
        record_long(&rig, &work);
        assert_int_equal(work.steps, (LONG + CHUNK - 1) / CHUNK - 2);
        for (uint32_t i = 0; i + 1 < work.steps; i++)
            assert_int_equal(work.chunk_rows[i], CHUNK);
        finish(&rig);
    }
}

static void a_flood_of_short_requests_takes_at_most_half_of_the_chunk(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t steps = 0;
    start(&rig, 0);
    submit(&rig, LONG_ID, 10 * CHUNK, 0, 1);
    rig_step(&rig);
    for (; !is_long_done(&rig); steps++) {
        submit(&rig, 2 * steps, SHORT, 5, 1);
        submit(&rig, 2 * steps + 1, SHORT, 5, 1);
        rig_step(&rig);
        assert_true(steps < 2 * 10);
    }
    assert_true(rig.result_count > 2);
    finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_request_has_its_first_token_within_three_steps),
        cmocka_unit_test(four_short_requests_do_not_queue_behind_the_prompt),
        cmocka_unit_test(a_cached_prompt_has_its_first_token_within_two_steps),
        cmocka_unit_test(a_cached_prompt_does_not_wait_for_tokens),
        cmocka_unit_test(an_urgent_request_of_two_blocks_starts_beside_the_prompt),
        cmocka_unit_test(further_choices_start_beside_the_prompt),
        cmocka_unit_test(a_preempted_stream_returns_beside_the_prompt),
        cmocka_unit_test(a_tenant_gets_a_place_beside_the_prompt_only_for_what_can_start),
        cmocka_unit_test(a_place_freed_for_a_second_long_prompt_is_kept_for_it),
        cmocka_unit_test(nothing_is_set_aside_when_nothing_short_waits),
        cmocka_unit_test(a_flood_of_short_requests_takes_at_most_half_of_the_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
