/* Four places, all taken by long answers of one tenant, and then requests of another tenant. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define PROMPT      24u
#define LONG_PROMPT 600u
#define OUTPUT      60u

static void start(struct engine_rig *rig, const uint32_t *weights)
{
    rig_init(rig);
    rig->options.sequences_max = 4;
    rig->options.tenant_count = 2;
    rig->options.tenant_weights = weights;
    rig_start(rig);
}

static void submit(struct engine_rig *rig, uint64_t ticket, uint32_t tenant)
{
    rig_submit_prompt(rig, ticket, tenant, ticket, PROMPT, OUTPUT);
}

/* Tickets 0 to 3 of tenant 0 run; then tenant 1 submits count requests. */
static void fill(struct engine_rig *rig, uint64_t count)
{
    for (uint64_t i = 0; i < 4; i++)
        submit(rig, i, 0);
    for (int i = 0; i < 10; i++)
        rig_step(rig);
    for (uint64_t i = 0; i < count; i++)
        submit(rig, 10 + i, 1);
}

static uint32_t started(const struct engine_rig *rig, uint64_t first, uint64_t count)
{
    uint32_t sum = 0;
    for (uint64_t i = first; i < first + count; i++)
        sum += rig->seen[i].started;
    return sum;
}

static void assert_right(const struct engine_rig *rig, uint64_t ticket)
{
    uint32_t prompt[PROMPT], expected[OUTPUT];
    const struct rig_choice *choice = &rig->seen[ticket].choices[0];
    rig_tokens(rig, ticket, prompt, PROMPT);
    rig_expect(rig, prompt, PROMPT, expected, OUTPUT);
    assert_int_equal(rig->seen[ticket].results, 1);
    assert_int_equal(choice->token_count, OUTPUT);
    assert_memory_equal(choice->tokens, expected, sizeof expected);
}

static void half_of_the_places_are_freed_one_a_step_and_no_answer_changes(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, NULL);
    fill(&rig, 3);
    for (uint32_t before = 0, i = 0; i < 20; i++) {
        rig_step(&rig);
        uint32_t now = started(&rig, 10, 3);
        assert_true(now <= before + 1);
        before = now;
    }
    assert_int_equal(started(&rig, 10, 3), 2); /* its part of four places */
    assert_int_equal(rig.result_count, 0);     /* no request has ended yet */
    rig_run(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 2);
    for (uint64_t i = 0; i < 4; i++)
        assert_right(&rig, i);
    for (uint64_t i = 10; i < 13; i++)
        assert_right(&rig, i);
    rig_end(&rig);
}

static void places_follow_the_weight(void **state)
{
    (void)state;
    static const uint32_t weights[] = {1, 3};
    struct engine_rig rig;
    start(&rig, weights);
    fill(&rig, 4);
    for (int i = 0; i < 20; i++)
        rig_step(&rig);
    assert_int_equal(started(&rig, 10, 4), 3);
    rig_run(&rig);
    rig_end(&rig);
}

static void a_tenant_is_not_preempted_for_itself(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, NULL);
    for (uint64_t i = 0; i < 6; i++)
        submit(&rig, i, 0);
    rig_run(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 0);
    rig_end(&rig);
}

static void a_tenant_served_more_waits_for_a_free_place(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, NULL);
    submit(&rig, 20, 1); /* so that tenant 1 was served and is not idle */
    for (int i = 0; i < 40; i++)
        rig_step(&rig);
    for (uint64_t i = 0; i < 4; i++)
        submit(&rig, i, 0);
    submit(&rig, 21, 1);
    submit(&rig, 22, 1);
    rig_step(&rig);
    uint64_t preemptions = mr_engine_stats(rig.engine).preemptions;
    assert_int_equal(preemptions, 0);
    rig_run(&rig);
    for (uint64_t i = 20; i < 23; i++)
        assert_right(&rig, i);
    rig_end(&rig);
}

/* No sequence is preempted for a request that may not start yet. */
static void a_place_is_freed_only_for_a_request_that_may_start(void **state)
{
    (void)state;
    struct engine_rig rig;
    start(&rig, NULL);
    fill(&rig, 1);
    rig.hold_starts = true;
    for (uint32_t i = 0; i < 10; i++)
        rig_step(&rig);
    assert_int_equal(rig.seen[10].started, 0);
    assert_true(rig.seen[10].asked > 0);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 0);
    rig.hold_starts = false;
    rig_step(&rig);
    assert_int_equal(rig.seen[10].started, 1);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 1);
    rig_run(&rig);
    for (uint64_t ticket = 0; ticket < 4; ticket++)
        assert_right(&rig, ticket);
    assert_right(&rig, 10);
    rig_end(&rig);
}

/* No sequence is preempted for a request that must wait for Redis first: Redis answers some steps
 * later, and by then the preempted sequence would have taken its place back. */
static void a_place_is_freed_only_after_the_lookup(void **state)
{
    (void)state;
    struct engine_rig rig;
    const struct fake_remote_options options = {.latency_ns = 20000000, .bytes_per_second = 1e9};
    rig_init(&rig);
    rig.options.sequences_max = 4;
    rig.options.tenant_count = 2;
    struct fake_remote *remote = rig.remote = fake_remote_create(&options, NULL);
    rig_start(&rig);
    fill(&rig, 0);
    const uint64_t lookups = remote->lookups;
    rig_submit_prompt(&rig, 10, 1, 10, LONG_PROMPT, OUTPUT);
    for (uint32_t i = 0; i < 2; i++)
        rig_step(&rig);
    assert_int_equal(remote->lookups, lookups + 1);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 0);
    while (rig.seen[10].started == 0)
        rig_step(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 1);
    rig_run(&rig);
    for (uint64_t ticket = 0; ticket < 4; ticket++)
        assert_right(&rig, ticket);
    rig_end(&rig);
    fake_remote_destroy(remote);
}

/* No sequence is preempted for a request whose prompt another sequence is computing. */
static void a_place_is_freed_only_after_the_common_prefix(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.sequences_max = 4;
    rig.options.tenant_count = 2;
    rig.options.chunk_tokens = 32;
    rig_start(&rig);
    for (uint64_t i = 0; i < 3; i++)
        submit(&rig, i, 0);
    rig_submit_prompt(&rig, 3, 0, 3, LONG_PROMPT, OUTPUT);
    for (uint32_t i = 0; i < 3; i++)
        rig_step(&rig);
    rig_submit_prompt(&rig, 10, 1, 3, LONG_PROMPT, OUTPUT);
    uint32_t steps = 0;
    for (; rig.seen[10].started == 0; steps++) {
        assert_int_equal(mr_engine_stats(rig.engine).preemptions, 0);
        rig_step(&rig);
    }
    assert_true(steps > 5);
    rig_run(&rig);
    assert_int_equal(mr_engine_stats(rig.engine).preemptions, 1);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_places_are_freed_one_a_step_and_no_answer_changes),
        cmocka_unit_test(places_follow_the_weight),
        cmocka_unit_test(a_tenant_is_not_preempted_for_itself),
        cmocka_unit_test(a_tenant_served_more_waits_for_a_free_place),
        cmocka_unit_test(a_place_is_freed_only_for_a_request_that_may_start),
        cmocka_unit_test(a_place_is_freed_only_after_the_lookup),
        cmocka_unit_test(a_place_is_freed_only_after_the_common_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
