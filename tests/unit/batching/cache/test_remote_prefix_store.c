/* What one engine stores in a fake remote cache, and what another engine finds there. */
#include "batching/cache/remote_prefix_state.h"

#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

/* Exports fail, as they do in int8 for numbers that are not finite. Each item is tried once, not
 * once a step. */
static void what_cannot_be_exported_is_not_tried_again(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    fleet.rigs[0].fake->options.fails_export = true;
    const uint32_t count = 2 * BLOCK + FLEET_PART(200);
    fleet_run(&fleet, 0, (struct fleet_spec){.shared = count, .count = count});
    assert_int_equal(fleet.rigs[0].fake->export_count, 1);
    assert_int_equal(fleet.remotes[0]->items_stored, 2);
    fleet_end(&fleet);
}

/* The remote cache takes the first blocks and refuses the rest: later items, here the pieces of the
 * last block, would never be found, so they are not stored. */
static void nothing_is_stored_behind_a_refused_value(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    fleet.remotes[0]->options.takes_max = 2;
    const uint32_t count = 4 * BLOCK + FLEET_PART(200);
    fleet_run(&fleet, 0, (struct fleet_spec){.shared = count, .count = count});
    fleet.remotes[0]->options.takes_max = 0; /* the limit is removed */
    fleet_drain_remote(&fleet, 0);
    assert_int_equal(fleet.remotes[0]->items_stored, 2);
    struct fleet_spec again = {.shared = count, .count = count};
    assert_int_equal(fleet_run(&fleet, 1, again)->result.cached_tokens_redis, 2 * BLOCK);
    fleet_drain_remote(&fleet, 1);
    assert_true(fleet.remotes[1]->items_stored > 2); /* and stores the rest */
    fleet_end(&fleet);
}

static uint32_t piece_end(uint32_t token_count)
{
    return token_count / MR_PIECE_TOKENS * MR_PIECE_TOKENS;
}

/* Blocks, pieces and entry together hold every token once. Items the remote cache has are not
 * stored again.
 */
static void every_token_is_stored_once(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    const uint64_t logits = fleet.rigs[0].fake->options.vocab_size * sizeof(float);
    struct fleet_spec spec = {
        .shared = 3 * BLOCK + FLEET_PART(170), .count = 3 * BLOCK + FLEET_PART(205), .ending = 1};
    const uint32_t alike = piece_end(spec.shared);
    fleet_run(&fleet, 0, spec);
    fleet_drain_remote(&fleet, 0);
    assert_int_equal(fleet_stats(&fleet, 0).stored_bytes,
                     spec.count * sizeof(struct mr_fake_slot) + logits);
    spec.ending = 2;
    assert_int_equal(fleet_run(&fleet, 1, spec)->result.cached_tokens_redis, alike);
    fleet_drain_remote(&fleet, 1);
    assert_int_equal(fleet_stats(&fleet, 1).stored_bytes,
                     (spec.count - alike) * sizeof(struct mr_fake_slot) + logits);
    fleet_end(&fleet);
}

/* Runs a prompt of count tokens on one engine, and the next turn (prompt, answer, 30 new tokens) on
 * another; returns the tokens it loaded. */
static uint32_t next_turn(struct fleet *fleet, uint32_t count, const char *session)
{
    struct engine_rig *rig = &fleet->rigs[1];
    uint32_t tokens[FLEET_PROMPT_MAX];
    fleet_run(fleet, 0, (struct fleet_spec){.shared = count, .count = count, .session = session});
    rig_tokens(rig, 7, tokens, count);
    rig_expect(rig, tokens, count, tokens + count, FLEET_ANSWER);
    rig_tokens(rig, 99, tokens + count + FLEET_ANSWER, 30);
    struct mr_request *request = mr_fake_request("turn", tokens, count + FLEET_ANSWER + 30);
    if (session != NULL) request->session = (struct mr_text){session, strlen(session)};
    rig_submit(rig, 50, request);
    rig_run(rig);
    return rig->seen[50].result.cached_tokens_redis;
}

static void a_session_is_found_by_another_worker_answers_included(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    assert_int_equal(next_turn(&fleet, 4 * BLOCK - 8, "talk"), 4 * BLOCK);
    fleet_end(&fleet);
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    assert_int_equal(next_turn(&fleet, 4 * BLOCK - 8, NULL), piece_end(4 * BLOCK - 8));
    fleet_end(&fleet);
}

/* Wherever in a block the first turn ends, it is found up to its last full piece. */
static void a_session_is_found_to_its_tail(void **state)
{
    (void)state;
    for (uint32_t count = MR_LOAD_TOKENS_MIN + BLOCK / 4; count < 3 * BLOCK;
         count += BLOCK / 4 + 3) {
        struct fleet fleet;
        fleet_start(&fleet, &fleet_fast, &fleet_fast);
        uint32_t computed = count + FLEET_ANSWER - 1;
        assert_int_equal(next_turn(&fleet, count, "talk"), piece_end(computed));
        fleet_end(&fleet);
        fleet_start(&fleet, &fleet_fast, &fleet_fast);
        assert_int_equal(next_turn(&fleet, count, NULL), piece_end(count));
        fleet_end(&fleet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_exported_is_not_tried_again),
        cmocka_unit_test(nothing_is_stored_behind_a_refused_value),
        cmocka_unit_test(every_token_is_stored_once),
        cmocka_unit_test(a_session_is_found_by_another_worker_answers_included),
        cmocka_unit_test(a_session_is_found_to_its_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
