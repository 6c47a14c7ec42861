/* Lookups of one engine in a fake remote cache that another engine has filled. */
#include "batching/cache/remote_prefix_state.h"

#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

static void a_late_answer_is_not_waited_for_long(void **state)
{
    (void)state;
    struct fleet fleet;
    struct fake_remote_options late = fleet_fast;
    late.latency_ns = 50000000;
    late.late_percent = 100;
    fleet_start(&fleet, &fleet_fast, &late);
    struct fleet_spec spec = {.shared = 2 * BLOCK, .count = 2 * BLOCK + 20, .ending = 1};
    double alone_ms = fleet_run(&fleet, 0, spec)->result.first_token_ms;
    double ms = fleet_run(&fleet, 1, spec)->result.first_token_ms;
    assert_true(ms < alone_ms + MR_LOOKUP_WAIT_NS / 1e6 + 1.0);
    fleet_drain_remote(&fleet, 1);
    fleet_end(&fleet);
}

/* Pieces of a block that is not the prompt's last are worth a second query, unless the first one
 * was slow. The smallest blocks have no pieces. */
static void a_slow_remote_cache_is_asked_once(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < 2; slow++) {
        struct fleet fleet;
        struct fake_remote_options other = fleet_fast;
        if (slow) other.latency_ns = MR_LOOKUP_AGAIN_NS + 1000000;
        fleet_start(&fleet, &fleet_fast, &other);
        fleet_run(
            &fleet, 0,
            (struct fleet_spec){.shared = FLEET_PART(100), .count = FLEET_PART(140), .ending = 1});
        fleet_run(&fleet, 1,
                  (struct fleet_spec){.shared = FLEET_PART(100), .count = 2 * BLOCK, .ending = 2});
        assert_int_equal(fleet.remotes[1]->lookups, slow || MR_PIECES_MAX == 0 ? 1 : 2);
        fleet_end(&fleet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_answer_is_not_waited_for_long),
        cmocka_unit_test(a_slow_remote_cache_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
