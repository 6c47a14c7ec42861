/* Loads from a fake remote cache that loses items at random. */
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

/* Lost blocks or pieces are computed; later items are used. */
static void a_lost_value_is_computed_and_the_rest_is_used(void **state)
{
    (void)state;
    static const uint32_t counts[][2] = {
        {6 * BLOCK, 6 * BLOCK + FLEET_PART(20)},
        {LEAST_BLOCKS - FLEET_PART(26), LEAST_BLOCKS - FLEET_PART(6)}};
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t used = 0, missing = 0;
        for (uint64_t seed = 1; seed < 40; seed++) {
            struct fleet fleet;
            struct fake_remote_options losing = fleet_fast;
            losing.lose_percent = 30;
            losing.seed = seed;
            fleet_start(&fleet, &fleet_fast, &losing);
            struct fleet_spec spec = {.shared = counts[i][0], .count = counts[i][1], .ending = 1};
            fleet_run(&fleet, 0, spec);
            spec.ending = seed % 2;
            const struct rig_seen *seen = fleet_run(&fleet, 1, spec);
            uint32_t prompt_rows = (uint32_t)fleet.rigs[1].fake->row_count - (FLEET_ANSWER - 1);
            assert_int_equal(prompt_rows + seen->result.cached_tokens_redis, spec.count);
            used += seen->result.cached_tokens_redis;
            missing += fleet_stats(&fleet, 1).missing_values;
            fleet_end(&fleet);
        }
        assert_true(used > 0 && missing > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_value_is_computed_and_the_rest_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
