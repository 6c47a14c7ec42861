/* Models with recurrent layers: every answer is that of the whole prompt, whatever the cache has,
 * and a state serves only the token that follows it. The fake model counts every other use. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS  8u
#define OUTPUT 5u

static void start(struct engine_rig *rig, uint32_t slots)
{
    rig_init(rig);
    rig->options.state_slots = slots;
    rig->options.draft_rows_max = 8;
    rig->options.chunk_tokens = 1000; /* only the borders of snapshots end a chunk */
    rig_start(rig);
}

static struct mr_request *request_of(const char *id, const uint32_t *tokens, uint32_t count)
{
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->ignore_eos = true;
    request->max_tokens = OUTPUT;
    request->sampling.temperature = 0;
    return request;
}

/* Runs a prompt to its end, compares the answer, and returns the number of computed rows. */
static uint64_t run(struct engine_rig *rig, uint64_t ticket, const uint32_t *tokens, uint32_t count)
{
    uint32_t expected[OUTPUT];
    const uint64_t before = rig->fake->row_count;
    rig_expect(rig, tokens, count, expected, OUTPUT);
    assert_int_equal(rig_submit(rig, ticket, request_of("a", tokens, count)), MR_OK);
    rig_run(rig);
    assert_int_equal(rig->seen[ticket].choices[0].token_count, OUTPUT);
    assert_memory_equal(rig->seen[ticket].choices[0].tokens, expected, sizeof expected);
    assert_int_equal(rig->fake->wrong_reads, 0);
    assert_int_equal(rig->fake->double_writes, 0);
    return rig->fake->row_count - before;
}

static void prompts_with_common_parts_of_every_length_are_right(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t tokens[4 * MR_BLOCK_TOKENS], other[4 * MR_BLOCK_TOKENS];
    start(&rig, SLOTS);
    rig_tokens(&rig, 1, tokens, 4 * MR_BLOCK_TOKENS);
    const uint32_t count = 3 * MR_BLOCK_TOKENS + MR_BLOCK_TOKENS / 3;
    run(&rig, 0, tokens, count);
    for (uint32_t i = 0; i < 100; i++) {
        const uint32_t common = i * count / 99;
        rig_tokens(&rig, 100 + i, other, 4 * MR_BLOCK_TOKENS);
        memcpy(other, tokens, common * sizeof *tokens);
        run(&rig, 1 + i, other, count + (i % 3));
    }
    assert_true(mr_engine_stats(rig.engine).cache.hit_tokens > 0);
    rig_end(&rig);
}

/* The first prompt computes the common part, the second one computes it again and keeps the state
 * where the two part, the third one finds it. */
static void a_common_part_is_found_from_the_third_prompt_on(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t tokens[4 * MR_BLOCK_TOKENS];
    const uint32_t common = 2 * MR_BLOCK_TOKENS, count = 4 * MR_BLOCK_TOKENS;
    start(&rig, SLOTS);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t shared[2 * MR_BLOCK_TOKENS];
        rig_tokens(&rig, 10 + i, tokens, count);
        rig_tokens(&rig, 1, shared, common);
        memcpy(tokens, shared, sizeof shared);
        const uint64_t rows = run(&rig, i, tokens, count);
        assert_int_equal(rows, count - (i < 2 ? 0 : common) + OUTPUT - 1);
    }
    rig_end(&rig);
}

static void the_next_turn_computes_what_follows_the_last_border_of_the_prompt(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t tokens[4 * MR_BLOCK_TOKENS];
    const uint32_t first = 2 * MR_BLOCK_TOKENS + 7, second = first + OUTPUT + 20;
    start(&rig, SLOTS);
    rig_tokens(&rig, 1, tokens, second);
    run(&rig, 0, tokens, first);
    memcpy(tokens + first, rig.seen[0].choices[0].tokens, OUTPUT * sizeof *tokens);
    const uint64_t rows = run(&rig, 1, tokens, second);
    assert_int_equal(rows, second - 2 * MR_BLOCK_TOKENS + OUTPUT - 1);
    rig_end(&rig);
}

static void preempted_sequences_continue_from_a_snapshot(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t expected[4][40];
    rig_init(&rig);
    rig.options.state_slots = SLOTS;
    rig.options.force_preempt_every = 3;
    rig_start(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t tokens[MR_BLOCK_TOKENS + 91];
        const uint32_t count = MR_BLOCK_TOKENS + 30 * i + 1;
        rig_tokens(&rig, i, tokens, count);
        rig_expect(&rig, tokens, count, expected[i], 40);
        const char id[2] = {(char)('a' + i), '\0'};
        struct mr_request *request = request_of(id, tokens, count);
        request->max_tokens = 40;
        assert_int_equal(rig_submit(&rig, i, request), MR_OK);
    }
    rig_run(&rig);
    for (uint32_t i = 0; i < 4; i++)
        assert_memory_equal(rig.seen[i].choices[0].tokens, expected[i], sizeof expected[i]);
    assert_true(mr_engine_stats(rig.engine).preemptions > 0);
    assert_int_equal(rig.fake->wrong_reads, 0);
    rig_end(&rig);
}

static void one_slot_is_enough(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t tokens[3 * MR_BLOCK_TOKENS];
    start(&rig, 1);
    rig_tokens(&rig, 1, tokens, 3 * MR_BLOCK_TOKENS);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(run(&rig, i, tokens, 2 * MR_BLOCK_TOKENS + 9),
                         2 * MR_BLOCK_TOKENS + 9 + OUTPUT - 1);
    rig_end(&rig);
}

static void choices_are_those_of_a_model_without_states(void **state)
{
    (void)state;
    struct rig_seen seen[2];
    for (uint32_t run_index = 0; run_index < 2; run_index++) {
        struct engine_rig rig;
        uint32_t tokens[2 * MR_BLOCK_TOKENS];
        start(&rig, run_index == 0 ? 0 : SLOTS);
        rig_tokens(&rig, 1, tokens, 2 * MR_BLOCK_TOKENS);
        struct mr_request *request = request_of("a", tokens, 2 * MR_BLOCK_TOKENS - 5);
        request->choice_count = 4;
        request->sampling.temperature = 0.7f;
        request->sampling.seed = 5;
        request->sampling.has_seed = true;
        request->cache_write = run_index == 0;
        assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
        rig_run(&rig);
        assert_int_equal(rig.fake->wrong_reads, 0);
        seen[run_index] = rig.seen[0];
        rig_end(&rig);
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_memory_equal(seen[0].choices[i].tokens, seen[1].choices[i].tokens,
                            OUTPUT * sizeof(uint32_t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_with_common_parts_of_every_length_are_right),
        cmocka_unit_test(a_common_part_is_found_from_the_third_prompt_on),
        cmocka_unit_test(the_next_turn_computes_what_follows_the_last_border_of_the_prompt),
        cmocka_unit_test(preempted_sequences_continue_from_a_snapshot),
        cmocka_unit_test(one_slot_is_enough),
        cmocka_unit_test(choices_are_those_of_a_model_without_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
