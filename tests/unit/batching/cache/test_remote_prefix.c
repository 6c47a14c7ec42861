/* Two engines on one fake remote cache: one loads what the other has computed. */
#include "batching/cache/remote_prefix_state.h"

#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS
/* A prompt of one block, or of two where most of one block is not worth a round trip. */
#define LEAST_BLOCKS (BLOCK > MR_LOAD_TOKENS_MIN ? BLOCK : 2 * BLOCK)

static void full_blocks_of_one_worker_are_loaded_by_another(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    struct fleet_spec spec = {.shared = 4 * BLOCK + 9, .count = 4 * BLOCK + 40, .ending = 1};
    assert_int_equal(fleet_run(&fleet, 0, spec)->result.cached_tokens_redis, 0);
    spec.ending = 2;
    const struct rig_seen *seen = fleet_run(&fleet, 1, spec);
    assert_int_equal(seen->result.cached_tokens_redis, 4 * BLOCK);
    assert_int_equal(seen->result.cached_tokens, 4 * BLOCK);
    assert_int_equal(fleet.rigs[1].fake->row_count, 40 + FLEET_ANSWER - 1);
    assert_int_equal(fleet_stats(&fleet, 1).loaded_tokens, 4 * BLOCK);
    fleet_end(&fleet);
}

static void an_identical_prompt_computes_nothing_anywhere(void **state)
{
    (void)state;
    const uint32_t counts[] = {40, LEAST_BLOCKS, 3 * BLOCK + 5, 4 * BLOCK};
    for (uint32_t i = 0; i < 4; i++) {
        struct fleet fleet;
        fleet_start(&fleet, &fleet_fast, &fleet_fast);
        struct fleet_spec spec = {.shared = counts[i], .count = counts[i]};
        fleet_run(&fleet, 0, spec);
        uint64_t forwards = fleet.rigs[0].fake->row_count;
        assert_int_equal(fleet_run(&fleet, 0, spec)->result.cached_tokens, counts[i]);
        assert_int_equal(fleet.rigs[0].fake->row_count - forwards, FLEET_ANSWER - 1);
        const struct rig_seen *seen = fleet_run(&fleet, 1, spec);
        assert_int_equal(seen->result.cached_tokens_redis, counts[i]);
        assert_int_equal(fleet.rigs[1].fake->row_count, FLEET_ANSWER - 1);
        seen = fleet_run(&fleet, 1, spec);
        assert_int_equal(seen->result.cached_tokens_redis, 0);
        assert_int_equal(seen->result.cached_tokens, counts[i]);
        fleet_end(&fleet);
    }
}

static void a_remote_cache_that_is_down_changes_nothing(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options down = fleet_fast;
    down.down = true;
    fleet_start(&fleet, &fleet_fast, &down);
    struct fleet_spec spec = {.shared = 4 * BLOCK, .count = 4 * BLOCK + 20, .ending = 1};
    double alone_ms = fleet_run(&fleet, 0, spec)->result.first_token_ms;
    double ms = fleet_run(&fleet, 1, spec)->result.first_token_ms;
    assert_true(ms <= alone_ms);
    assert_int_equal(fleet_stats(&fleet, 1).lookups_refused, 1);
    fleet_end(&fleet);
}

static void tenants_never_share(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    struct fleet_spec spec = {.shared = 3 * BLOCK + 7, .count = 3 * BLOCK + 7, .tenant = "one"};
    fleet_run(&fleet, 0, spec);
    spec.tenant = "two";
    assert_int_equal(fleet_run(&fleet, 0, spec)->result.cached_tokens, 0);
    spec.tenant = "three";
    assert_int_equal(fleet_run(&fleet, 1, spec)->result.cached_tokens, 0);
    spec.tenant = "one";
    assert_int_equal(fleet_run(&fleet, 1, spec)->result.cached_tokens_redis, spec.count);
    fleet_end(&fleet);
}

static void what_was_flushed_is_stored_again(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    struct fleet_spec spec = {.shared = 3 * BLOCK, .count = 3 * BLOCK + 20, .ending = 1};
    fleet_run(&fleet, 0, spec);
    fleet_drain_remote(&fleet, 0);
    fake_remote_flush(fleet.remotes[0]);
    spec.ending = 2;
    assert_int_equal(fleet_run(&fleet, 0, spec)->result.cached_tokens, 3 * BLOCK);
    spec.ending = 3;
    assert_int_equal(fleet_run(&fleet, 1, spec)->result.cached_tokens_redis, 3 * BLOCK);
    fleet_end(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_blocks_of_one_worker_are_loaded_by_another),
        cmocka_unit_test(an_identical_prompt_computes_nothing_anywhere),
        cmocka_unit_test(a_remote_cache_that_is_down_changes_nothing),
        cmocka_unit_test(tenants_never_share),
        cmocka_unit_test(what_was_flushed_is_stored_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
