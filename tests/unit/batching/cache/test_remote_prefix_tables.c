/* Blocks of ended sequences that the fake remote cache still reads. */
#include "batching/cache/remote_prefix_state.h"

#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

/* Blocks of an ended sequence stay held until the remote cache has read them. */
static void blocks_being_stored_outlive_their_sequence(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options slow = fleet_fast;
    slow.bytes_per_second = BLOCK * sizeof(struct mr_fake_slot) / 10.0; /* ten seconds a block */
    fleet_start(&fleet, &slow, &fleet_fast);
    struct engine_rig *rig = &fleet.rigs[0];
    struct fleet_spec spec = {.shared = 4 * BLOCK, .count = 4 * BLOCK + 20, .ending = 1};
    fleet_run(&fleet, 0, spec);
    const uint32_t tokens = spec.count + FLEET_ANSWER;
    assert_int_equal(mr_engine_stats(rig->engine).cache.held_count, (tokens + BLOCK - 1) / BLOCK);
    fleet_drain_remote(&fleet, 0);
    assert_int_equal(mr_engine_stats(rig->engine).cache.held_count, 0);
    assert_int_equal(fleet_run(&fleet, 0, spec)->result.cached_tokens, spec.count);
    fleet_end(&fleet);
}

static void a_short_pool_reclaims_lent_blocks(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options slow = fleet_fast;
    slow.bytes_per_second = BLOCK * sizeof(struct mr_fake_slot) / 10.0;
    fleet_start(&fleet, &slow, &fleet_fast);
    fleet_end(&fleet);
    fleet.remotes[0] = fake_remote_create(&slow, NULL);
    struct engine_rig *rig = &fleet.rigs[0];
    rig_init(rig);
    rig->options.block_count = 6;
    rig->remote = fleet.remotes[0];
    rig_start(rig);
    fake_remote_set_clock(rig->remote, &rig->fake->now_ns);
    fleet.next_ticket[0] = 0;
    for (uint64_t ending = 1; ending < 6; ending++) {
        /* A new prompt each time, as long as the pool less one answer. */
        struct fleet_spec spec = {.count = 6 * BLOCK - FLEET_ANSWER - (uint32_t)ending % 2,
                                  .ending = ending};
        uint64_t begin_ns = rig->fake->now_ns;
        fleet_run(&fleet, 0, spec);
        assert_true(rig->fake->now_ns - begin_ns < 2000000000u);
    }
    assert_true(fleet_stats(&fleet, 0).stores_lost > 0);
    rig_end(rig);
    fake_remote_destroy(fleet.remotes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_being_stored_outlive_their_sequence),
        cmocka_unit_test(a_short_pool_reclaims_lent_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
