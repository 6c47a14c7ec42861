/* Loads of one engine from a fake remote cache that another engine has filled. */
#include "batching/cache/remote_prefix_state.h"

#include "batching/engine/engine_state.h"
#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

/* The last blocks have arrived long before the first ones are computed. */
static void blocks_that_arrive_early_are_used_later(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options even = fleet_fast;
    even.bytes_per_second = BLOCK * sizeof(struct mr_fake_slot) / 0.064;
    fleet_start(&fleet, &fleet_fast, &even);
    struct fleet_spec warm = {.shared = 0, .count = 6 * BLOCK, .ending = 8, .no_read = true};
    for (uint32_t i = 0; i < 12; i++, warm.ending++)
        fleet_run(&fleet, 1, warm);
    fleet_drain_remote(&fleet, 1);
    struct fleet_spec spec = {
        .shared = 7 * BLOCK, .count = 7 * BLOCK + FLEET_PART(20), .ending = 1};
    fleet_run(&fleet, 0, spec);
    fleet_drain_remote(&fleet, 0);
    spec.ending = 2;
    struct engine_rig *rig = &fleet.rigs[1];
    uint32_t tokens[FLEET_PROMPT_MAX];
    fleet_prompt(rig, tokens, spec.shared, spec.count, spec.ending);
    rig_submit(rig, 60, mr_fake_request("early", tokens, spec.count));
    while (fleet_stats(&fleet, 1).loads == 0)
        rig_step(rig);
    /* The rest of the load arrives at once. */
    fake_remote_deliver_now(fleet.remotes[1]);
    rig_run(rig);
    assert_in_range(rig->seen[60].result.cached_tokens_redis, 2 * BLOCK, 5 * BLOCK);
    assert_int_equal(fleet_stats(&fleet, 1).unused_values, 0);
    fleet_end(&fleet);
}

/* Four blocks take 256 ms to compute and almost no time to load. */
static void what_is_to_be_loaded_counts_for_a_deadline(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    struct fleet_spec spec = {
        .shared = 4 * BLOCK, .count = 4 * BLOCK + FLEET_PART(40), .ending = 10};
    struct fleet_spec taught = {.shared = 9, .count = spec.count};
    for (taught.ending = 1; taught.ending < 5; taught.ending++)
        fleet_run(&fleet, 1, taught);
    const double alone_ms = fleet_run(&fleet, 0, spec)->result.total_ms;
    struct engine_rig *rig = &fleet.rigs[1];
    for (uint32_t there = 0; there < 2; there++) {
        uint32_t tokens[FLEET_PROMPT_MAX], ticket = fleet.next_ticket[1]++;
        fleet_prompt(rig, tokens, there ? spec.shared : 0, spec.count, 20);
        struct mr_request *request = mr_fake_request("late", tokens, spec.count);
        request->ignore_eos = request->cache_read = true;
        struct mr_submission submission = {.request = request,
                                           .ticket = ticket,
                                           .tenant = "default",
                                           .deadline_ns = rig->fake->now_ns +
                                                          (uint64_t)((alone_ms - 128) * 1e6)};
        assert_int_equal(rig_submit_as(rig, submission), MR_OK);
        rig_run(rig);
        assert_int_equal(rig->seen[ticket].choices[0].finish,
                         there ? MR_FINISH_LENGTH : MR_FINISH_DEADLINE);
        assert_int_equal(rig->seen[ticket].started, there);
    }
    fleet_end(&fleet);
}

static void a_remote_cache_slower_than_computing_is_left_alone(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options slow = fleet_fast;
    slow.bytes_per_second = 2.0 * BLOCK * sizeof(uint32_t) / 4.0; /* four seconds a block */
    fleet_start(&fleet, &fleet_fast, &slow);
    struct fleet_spec spec = {.shared = 4 * BLOCK, .count = 4 * BLOCK + 20, .ending = 1};
    fleet_run(&fleet, 0, spec);
    const struct fleet_spec measured = {.shared = 9, .count = 2 * BLOCK, .ending = 3};
    fleet_run(&fleet, 1, measured); /* the time of a step is known */
    spec.ending = 2;
    fleet.rigs[1].fake->now_ns = 1000; /* earlier than the first probe */
    const struct rig_seen *seen = fleet_run(&fleet, 1, spec);
    assert_int_equal(seen->result.cached_tokens_redis, 0);
    assert_int_equal(fleet.remotes[1]->loads, 0);
    assert_int_equal(fleet_stats(&fleet, 1).decisions[MR_LOAD_SLOWER], 1);
    fleet_end(&fleet);
}

/* Copying one block once took 20 s. No load follows that would correct this time, only probes. */
static void a_copy_that_stalled_does_not_end_loads_for_ever(void **state)
{
    (void)state;
    struct fleet fleet;
    uint32_t loaded = 0;
    fleet_start_as(&fleet, (struct fleet_kind){.remote = true}, &fleet_fast, &fleet_fast);
    struct fleet_spec spec = {.count = 4 * BLOCK + 20, .ending = 1};
    fleet_run(&fleet, 1, spec);
    fleet.rigs[1].engine->remote->import_ms = 5000; /* a quarter */
    for (uint32_t i = 0; i < 20 && loaded < 4 * BLOCK; i++) {
        spec.ending++;
        fleet_run(&fleet, 0, spec);
        fleet_drain_remote(&fleet, 0);
        fleet.rigs[1].fake->now_ns += MR_PROBE_INTERVAL_NS;
        loaded = fleet_run(&fleet, 1, spec)->result.cached_tokens_redis;
        fleet_drain_remote(&fleet, 1);
    }
    assert_true(fleet_stats(&fleet, 1).decisions[MR_LOAD_PROBE] > 0);
    assert_true(loaded >= 4 * BLOCK);
    fleet_end(&fleet);
}

static void an_unmeasured_slow_remote_cache_costs_little(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options slow = fleet_fast;
    slow.bytes_per_second = 2.0 * BLOCK * sizeof(uint32_t) / 1.0;
    slow.unmeasured = true;
    fleet_start(&fleet, &fleet_fast, &slow);
    struct fleet_spec spec = {.shared = 4 * BLOCK, .count = 4 * BLOCK + 20, .ending = 1};
    double alone_ms = fleet_run(&fleet, 0, spec)->result.first_token_ms;
    spec.ending = 2;
    double ms = fleet_run(&fleet, 1, spec)->result.first_token_ms;
    assert_true(ms < alone_ms + MR_LOAD_TRIAL_MS + 2.0);
    assert_int_equal(fleet_stats(&fleet, 1).waits_ended, 1);
    fleet_drain_remote(&fleet, 1);
    fleet_end(&fleet);
}

/* Starts loading a prompt of six blocks from a remote cache that needs 10 ms a block; returns when
 * one block has arrived. */
static struct engine_rig *load_one_block(struct fleet *fleet)
{
    uint32_t tokens[FLEET_PROMPT_MAX];
    const struct fleet_spec spec = {.shared = 6 * BLOCK, .count = 6 * BLOCK + 20, .ending = 1};
    struct fake_remote_options even = fleet_fast;
    even.bytes_per_second = BLOCK * sizeof(struct mr_fake_slot) / 0.010;
    fleet_start(fleet, &fleet_fast, &even);
    fleet_run(fleet, 0, spec);
    fleet_prompt(&fleet->rigs[1], tokens, spec.shared, spec.count, 2);
    rig_submit(&fleet->rigs[1], 60, mr_fake_request("cut", tokens, spec.count));
    while (fleet_stats(fleet, 1).loaded_bytes == 0)
        rig_step(&fleet->rigs[1]);
    return &fleet->rigs[1];
}

/* Five of six blocks do not arrive in time. The only cost is the time spent waiting for them. */
static void what_is_cut_off_is_computed_at_once(void **state)
{
    (void)state;
    struct fleet fleet;
    struct engine_rig *rig = load_one_block(&fleet);
    fake_remote_cut(fleet.remotes[1]);
    rig_run(rig);
    assert_int_equal(rig->seen[60].result.cached_tokens_redis, BLOCK);
    double alone_ms = fleet.rigs[0].seen[0].result.first_token_ms;
    assert_true(rig->seen[60].result.first_token_ms < alone_ms);
    assert_int_equal(fleet_stats(&fleet, 1).missing_values, 5);
    fleet_end(&fleet);
}

/* The remote cache sends nothing: after MR_LOAD_STALL_MS prefill computes one block. If the remote
 * cache sends again by then, prefill waits for the rest. */
static void a_load_that_stalls_is_not_waited_for(void **state)
{
    (void)state;
    for (uint32_t back = 0; back < 2; back++) {
        struct fleet fleet;
        struct engine_rig *rig = load_one_block(&fleet);
        uint64_t begun_ns = rig->fake->now_ns, rows = rig->fake->row_count;
        fake_remote_stall(fleet.remotes[1]);
        while (fleet_stats(&fleet, 1).waits_ended == 0)
            rig_step(rig);
        double over_ms = (double)(rig->fake->now_ns - begun_ns) / 1e6 - MR_LOAD_STALL_MS;
        assert_true(rig->fake->row_count == rows && over_ms >= 0 && over_ms <= 2);
        if (back) fake_remote_deliver_now(fleet.remotes[1]);
        rig_run(rig);
        assert_int_equal(rig->seen[60].result.cached_tokens_redis, back ? 5 * BLOCK : BLOCK);
        fleet_drain_remote(&fleet, 1);
        fleet_end(&fleet);
    }
}

/* With loading and computing at the same speed, each supplies about half of the blocks. */
static void the_first_blocks_are_computed_while_the_last_are_loaded(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options even = fleet_fast;
    even.bytes_per_second = 2.0 * BLOCK * sizeof(uint32_t) / 0.064;
    fleet_start(&fleet, &fleet_fast, &even);
    struct fleet_spec warm = {.shared = 0, .count = 6 * BLOCK, .ending = 8, .no_read = true};
    for (uint32_t i = 0; i < 12; i++, warm.ending++)
        fleet_run(&fleet, 1, warm);
    fleet_drain_remote(&fleet, 1);
    struct fleet_spec spec = {
        .shared = 7 * BLOCK, .count = 7 * BLOCK + FLEET_PART(20), .ending = 1};
    double alone_ms = fleet_run(&fleet, 0, spec)->result.first_token_ms;
    spec.ending = 2;
    const struct rig_seen *seen = fleet_run(&fleet, 1, spec);
    assert_in_range(seen->result.cached_tokens_redis, 2 * BLOCK, 5 * BLOCK);
    assert_true(seen->result.first_token_ms < 0.8 * alone_ms);
    fleet_drain_remote(&fleet, 1);
    fleet_end(&fleet);
}

static void a_request_cancelled_while_it_loads_ends_well(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options slow = fleet_fast;
    slow.bytes_per_second = 2.0 * BLOCK * sizeof(uint32_t) / 0.020;
    fleet_start(&fleet, &fleet_fast, &slow);
    struct fleet_spec spec = {.shared = 6 * BLOCK, .count = 6 * BLOCK + 20, .ending = 1};
    fleet_run(&fleet, 0, spec);
    struct engine_rig *rig = &fleet.rigs[1];
    uint32_t tokens[FLEET_PROMPT_MAX];
    fleet_prompt(rig, tokens, spec.shared, spec.count, 1);
    rig_submit(rig, 9, mr_fake_request("gone", tokens, spec.count));
    while (fleet_stats(&fleet, 1).loads == 0 || fleet_stats(&fleet, 1).loaded_bytes == 0)
        rig_step(rig);
    assert_true(mr_engine_cancel(rig->engine, 0, (struct mr_text){"gone", 4}));
    rig_run(rig);
    fleet_drain_remote(&fleet, 1);
    assert_int_equal(rig->seen[9].choices[0].finish, MR_FINISH_CANCELLED);
    struct mr_remote_prefix_stats stats = fleet_stats(&fleet, 1);
    assert_int_equal(stats.staging_free, stats.staging_count);
    assert_true(fleet_run(&fleet, 1, spec)->result.cached_tokens > 0);
    fleet_end(&fleet);
}

static void start_fair(struct engine_rig *rig, struct fake_remote *remote)
{
    rig_init(rig);
    rig->options.tenant_count = 2;
    rig->options.sequences_max = 2;
    rig->fake_options.token_ms = 2;
    rig->remote = remote;
    rig_start(rig);
}

static void submit_fair(struct engine_rig *rig, uint64_t ticket, uint32_t tenant, uint32_t count)
{
    char id[8];
    uint32_t tokens[6 * BLOCK];
    rig_tokens(rig, ticket, tokens, count);
    snprintf(id, sizeof id, "%u", (unsigned)ticket);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->max_tokens = 16;
    request->ignore_eos = true;
    assert_int_equal(rig_submit_as(rig, (struct mr_submission){.request = request,
                                                               .ticket = ticket,
                                                               .tenant = tenant > 0 ? "b" : "a",
                                                               .tenant_index = tenant}),
                     MR_OK);
}

/* Tenant 0 sends long prompts that are in Redis, tenant 1 the same number of short prompts that are
 * not. Both tenants' answers cost about the same. */
static void loaded_tokens_cost_a_tenant_nothing(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    struct fake_remote *first = fake_remote_create(&fleet_fast, NULL);
    struct fake_remote *second = fake_remote_create(&fleet_fast, first);
    struct engine_rig rigs[2], *rig = &rigs[1];
    start_fair(&rigs[0], first);
    for (uint32_t i = 0; i < COUNT; i++) {
        submit_fair(&rigs[0], i, 0, 5 * BLOCK + FLEET_PART(20));
        rig_run(&rigs[0]);
    }
    start_fair(rig, second);
    for (uint32_t i = 0; i < COUNT; i++) {
        submit_fair(rig, i, 0, 5 * BLOCK + FLEET_PART(20));
        submit_fair(rig, COUNT + i, 1, FLEET_PART(20));
    }
    while (rig->result_count < COUNT)
        rig_step(rig);
    uint32_t answered = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        answered += rig->seen[i].results;
    assert_in_range(answered, COUNT / 2 - 2, COUNT / 2 + 2);
    rig_run(rig);
    assert_true(rig->seen[COUNT - 1].result.cached_tokens_redis >= 5 * BLOCK);
    rig_end(&rigs[0]);
    rig_end(rig);
    fake_remote_destroy(second);
    fake_remote_destroy(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_arrive_early_are_used_later),
        cmocka_unit_test(what_is_to_be_loaded_counts_for_a_deadline),
        cmocka_unit_test(a_remote_cache_slower_than_computing_is_left_alone),
        cmocka_unit_test(a_copy_that_stalled_does_not_end_loads_for_ever),
        cmocka_unit_test(an_unmeasured_slow_remote_cache_costs_little),
        cmocka_unit_test(what_is_cut_off_is_computed_at_once),
        cmocka_unit_test(a_load_that_stalls_is_not_waited_for),
        cmocka_unit_test(the_first_blocks_are_computed_while_the_last_are_loaded),
        cmocka_unit_test(a_request_cancelled_while_it_loads_ends_well),
        cmocka_unit_test(loaded_tokens_cost_a_tenant_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
