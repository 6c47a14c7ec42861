/* Blocks read and filled in place, staging buffers and pieces, in two engines on one fake remote
 * cache. */
#include "batching/cache/remote_prefix_state.h"

#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

/* Full blocks are read and filled in place, unless the remote cache cannot reach the pool. The
 * piece and the entry that follow are copied. With the smallest block size the piece is a fifth
 * full block.
 */
static void full_blocks_go_without_a_copy(void **state)
{
    (void)state;
    const uint32_t fifth = MR_PIECES_MAX == 0;
    for (uint32_t remote = 0; remote < 2; remote++) {
        struct fleet fleet;
        fleet_start_as(&fleet, (struct fleet_kind){.remote = remote == 1}, &fleet_fast,
                       &fleet_fast);
        struct fleet_spec spec = {
            .shared = 4 * BLOCK + 9, .count = 4 * BLOCK + MR_PIECE_TOKENS + 8, .ending = 1};
        fleet_run(&fleet, 0, spec);
        fleet_drain_remote(&fleet, 0);
        spec.ending = 2;
        assert_int_equal(fleet_run(&fleet, 1, spec)->result.cached_tokens_redis, 4 * BLOCK);
        assert_int_equal(fleet.rigs[0].fake->export_count, remote == 1 ? 6 : 2 - fifth);
        assert_int_equal(fleet.rigs[1].fake->import_count, remote == 1 ? 4 : 0);
        uint64_t bytes = (4 + fifth) * (uint64_t)BLOCK * sizeof(struct mr_fake_slot);
        assert_int_equal(fleet_stats(&fleet, 1).direct_bytes, remote == 1 ? 0 : bytes);
        fleet_end(&fleet);
    }
}

static void a_pool_of_two_buffers_is_enough(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    fleet_end(&fleet);
    fleet.remotes[0] = fake_remote_create(&fleet_fast, NULL);
    struct engine_rig *rig = &fleet.rigs[0];
    rig_init(rig);
    rig->options.remote_staging_bytes = 1;
    rig->options.prompt_cache_entries = 4;
    rig->remote = fleet.remotes[0];
    rig_start(rig);
    fake_remote_set_clock(rig->remote, &rig->fake->now_ns);
    fleet.next_ticket[0] = 0;
    struct fleet_spec spec = {.shared = 4 * BLOCK, .count = 4 * BLOCK + 20, .ending = 1};
    for (; spec.ending < 4; spec.ending++)
        fleet_run(&fleet, 0, spec);
    assert_true(fleet.remotes[0]->items_stored > 0);
    rig_end(rig);
    fake_remote_destroy(fleet.remotes[0]);
}

static uint32_t piece_end(uint32_t token_count)
{
    return token_count / MR_PIECE_TOKENS * MR_PIECE_TOKENS;
}

/* The second prompt differs from the first in their common last block, in the last block of the
 * first prompt only, or before the first full block. With and without the prompt cache. */
static void prompts_that_slice_within_a_block_share_it_up_to_there(void **state)
{
    (void)state;
    const uint32_t few = FLEET_PART(60), shared = FLEET_PART(100), end = FLEET_PART(140);
    const uint32_t cases[][3] = {{4 * BLOCK + shared, 4 * BLOCK + end, 4 * BLOCK + end + 2},
                                 {4 * BLOCK + shared, 4 * BLOCK + end, 5 * BLOCK + few},
                                 {3 * BLOCK - 1, 3 * BLOCK - 1, 3 * BLOCK},
                                 {shared, end, BLOCK + few},
                                 {shared, end, shared + 2}};
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t *tokens = cases[i / 2];
        struct fleet fleet;
        fleet_start_as(&fleet, (struct fleet_kind){.no_logits = i % 2 == 0}, &fleet_fast,
                       &fleet_fast);
        fleet_run(&fleet, 0,
                  (struct fleet_spec){.shared = tokens[0], .count = tokens[1], .ending = 1});
        const struct rig_seen *seen = fleet_run(
            &fleet, 1, (struct fleet_spec){.shared = tokens[0], .count = tokens[2], .ending = 2});
        /* Fewer tokens are not worth a round trip. */
        const uint32_t alike = piece_end(tokens[0]);
        const uint32_t loaded = alike < MR_LOAD_TOKENS_MIN ? 0 : alike;
        assert_int_equal(seen->result.cached_tokens_redis, loaded);
        assert_int_equal(fleet.rigs[1].fake->row_count, tokens[2] - loaded + FLEET_ANSWER - 1);
        fleet_end(&fleet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_blocks_go_without_a_copy),
        cmocka_unit_test(a_pool_of_two_buffers_is_enough),
        cmocka_unit_test(prompts_that_slice_within_a_block_share_it_up_to_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
