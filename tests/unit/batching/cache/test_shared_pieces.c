/* What prompts share within a block: two engines over fake models that share a fake tier. */
#include "batching/cache/shared_cache.h"

#include "tests/fakes/fleet_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK MR_BLOCK_TOKENS

static uint32_t piece_end(uint32_t token_count)
{
    return token_count / MR_PIECE_TOKENS * MR_PIECE_TOKENS;
}

/* Where the one that comes later parts from the other: in the last block of both, in one that only
 * the other ends in, before the first full block. Without a cache of logits, too. */
static void prompts_that_part_within_a_block_share_it_up_to_there(void **state)
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
                  (struct fleet_wish){.shared = tokens[0], .count = tokens[1], .ending = 1});
        const struct rig_seen *seen = fleet_run(
            &fleet, 1, (struct fleet_wish){.shared = tokens[0], .count = tokens[2], .ending = 2});
        /* Less than that is not worth a round trip. */
        const uint32_t alike = piece_end(tokens[0]);
        const uint32_t loaded = alike < MR_LOAD_TOKENS_MIN ? 0 : alike;
        assert_int_equal(seen->result.cached_tokens_redis, loaded);
        assert_int_equal(fleet.rigs[1].fake->row_count, tokens[2] - loaded + FLEET_ANSWER - 1);
        fleet_end(&fleet);
    }
}

/* Pieces of a block that is not the prompt's last are worth a second question, not a second wait.
 * The smallest blocks have none. */
static void a_slow_tier_is_asked_once(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < 2; slow++) {
        struct fleet fleet;
        struct fake_tier_options other = fleet_fast;
        if (slow) other.latency_ns = MR_ASK_AGAIN_NS + 1000000;
        fleet_start(&fleet, &fleet_fast, &other);
        fleet_run(
            &fleet, 0,
            (struct fleet_wish){.shared = FLEET_PART(100), .count = FLEET_PART(140), .ending = 1});
        fleet_run(&fleet, 1,
                  (struct fleet_wish){.shared = FLEET_PART(100), .count = 2 * BLOCK, .ending = 2});
        assert_int_equal(fleet.tiers[1]->asks, slow || MR_PIECES_MAX == 0 ? 1 : 2);
        fleet_end(&fleet);
    }
}

/* As int8 fails of numbers that are not finite: once for each thing, not once a step. */
static void what_cannot_be_exported_is_not_tried_again(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    fleet.rigs[0].fake->options.fails_export = true;
    const uint32_t count = 2 * BLOCK + FLEET_PART(200);
    fleet_run(&fleet, 0, (struct fleet_wish){.shared = count, .count = count});
    assert_int_equal(fleet.rigs[0].fake->export_count, 1);
    assert_int_equal(fleet.tiers[0]->items_stored, 2);
    fleet_end(&fleet);
}

/* Blocks, pieces and entry together hold every token once; what is there is not stored again. */
static void every_token_is_stored_once(void **state)
{
    (void)state;
    struct fleet fleet;
    fleet_start(&fleet, &fleet_fast, &fleet_fast);
    const uint64_t logits = fleet.rigs[0].fake->options.vocab_size * sizeof(float);
    struct fleet_wish wish = {
        .shared = 3 * BLOCK + FLEET_PART(170), .count = 3 * BLOCK + FLEET_PART(205), .ending = 1};
    const uint32_t alike = piece_end(wish.shared);
    fleet_run(&fleet, 0, wish);
    fleet_settle(&fleet, 0);
    assert_int_equal(fleet_stats(&fleet, 0).stored_bytes,
                     wish.count * sizeof(struct mr_fake_slot) + logits);
    wish.ending = 2;
    assert_int_equal(fleet_run(&fleet, 1, wish)->result.cached_tokens_redis, alike);
    fleet_settle(&fleet, 1);
    assert_int_equal(fleet_stats(&fleet, 1).stored_bytes,
                     (wish.count - alike) * sizeof(struct mr_fake_slot) + logits);
    fleet_end(&fleet);
}

/* The next turn: a prompt of count tokens, its answer, and what is said then. */
static uint32_t next_turn(struct fleet *fleet, uint32_t count, const char *session)
{
    struct engine_rig *rig = &fleet->rigs[1];
    uint32_t tokens[FLEET_PROMPT_MAX];
    fleet_run(fleet, 0, (struct fleet_wish){.shared = count, .count = count, .session = session});
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

/* Wherever in a block the conversation ends: to the last whole step. */
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
        cmocka_unit_test(prompts_that_part_within_a_block_share_it_up_to_there),
        cmocka_unit_test(a_slow_tier_is_asked_once),
        cmocka_unit_test(what_cannot_be_exported_is_not_tried_again),
        cmocka_unit_test(every_token_is_stored_once),
        cmocka_unit_test(a_session_is_found_by_another_worker_answers_included),
        cmocka_unit_test(a_session_is_found_to_its_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
