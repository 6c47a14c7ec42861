/* Requests that resume after the tokens of an earlier attempt (mr_submission.kept). */
#include "batching/engine/engine.h"

#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PROMPT 300u
#define ANSWER 16u

static struct mr_request *make(const struct engine_rig *rig)
{
    uint32_t tokens[PROMPT];
    rig_tokens(rig, 1, tokens, PROMPT);
    struct mr_request *request = mr_fake_request("a", tokens, PROMPT);
    request->ignore_eos = true;
    request->sampling.temperature = 0.9f;
    request->sampling.presence_penalty = 0.5f;
    request->sampling.frequency_penalty = 0.5f;
    request->sampling.logprobs = 2;
    return request;
}

static enum mr_status submit_behind(struct engine_rig *rig, struct mr_request *request,
                                    const struct mr_sample *kept, uint32_t count, uint32_t shown)
{
    return rig_submit_as(rig, (struct mr_submission){.request = request,
                                                     .ticket = 1,
                                                     .tenant = "default",
                                                     .kept = kept,
                                                     .kept_count = count,
                                                     .kept_shown = shown});
}

/* The answer of an uninterrupted run. */
static void run_whole(struct engine_rig *rig)
{
    rig_init(rig);
    rig_start(rig);
    assert_int_equal(submit_behind(rig, make(rig), NULL, 0, 0), MR_OK);
    rig_run(rig);
    assert_int_equal(rig->seen[1].drawn_end, ANSWER);
    assert_int_equal(rig->seen[1].resumed, 0);
}

static void assert_same(const struct rig_seen *left, const struct rig_seen *right)
{
    const struct rig_choice *one = &left->choices[0], *two = &right->choices[0];
    assert_int_equal(one->finish, two->finish);
    assert_int_equal(one->token_count, two->token_count);
    assert_memory_equal(one->tokens, two->tokens, one->token_count * sizeof *one->tokens);
    assert_int_equal(one->completion_tokens, two->completion_tokens);
    assert_int_equal(left->result.prompt_tokens, right->result.prompt_tokens);
}

static void an_answer_resumes_wherever_it_was_cut(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    const struct rig_seen *wanted = &whole.seen[1];
    for (uint32_t count = 0; count < ANSWER; count++) {
        uint32_t shown = count * 2 / 3;
        rig_init(&rest);
        rig_start(&rest);
        assert_int_equal(submit_behind(&rest, make(&rest), wanted->drawn, count, shown), MR_OK);
        rig_run(&rest);
        const struct rig_seen *seen = &rest.seen[1];
        assert_same(seen, wanted);
        assert_int_equal(seen->drawn_from, count);
        assert_int_equal(seen->resumed, count > 0);
        assert_int_equal(seen->choices[0].deltas, ANSWER - shown);
        assert_memory_equal(&seen->choices[0].streamed[shown], &wanted->choices[0].tokens[shown],
                            (ANSWER - shown) * sizeof(uint32_t));
        assert_memory_equal(&seen->drawn[count], &wanted->drawn[count],
                            (ANSWER - count) * sizeof(struct mr_sample));
        rig_end(&rest);
    }
    rig_end(&whole);
}

/* When a resumed answer is split, its first record has the earlier text and its last one the end.
 */
static void the_text_before_a_resumed_answer_comes_with_it(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    rig_init(&whole);
    rig_start(&whole);
    struct mr_request *request = make(&whole);
    request->tool_use.separate_reasoning = true;
    assert_int_equal(submit_behind(&whole, request, NULL, 0, 0), MR_OK);
    rig_run(&whole);
    const struct rig_choice *wanted = &whole.seen[1].choices[0];
    assert_true(wanted->text_bytes > 0);
    assert_int_equal(wanted->before_bytes, 0);
    assert_int_equal(wanted->ended, 1);
    for (uint32_t shown = 0; shown < ANSWER; shown += 5) {
        rig_init(&rest);
        rig_start(&rest);
        request = make(&rest);
        request->tool_use.separate_reasoning = true;
        assert_int_equal(submit_behind(&rest, request, whole.seen[1].drawn, ANSWER - 1, shown),
                         MR_OK);
        rig_run(&rest);
        const struct rig_choice *seen = &rest.seen[1].choices[0];
        assert_int_equal(seen->before_bytes + seen->text_bytes, wanted->text_bytes);
        assert_int_equal(seen->before_bytes > 0, shown > 0);
        assert_int_equal(seen->ended, 1);
        rig_end(&rest);
    }
    rig_end(&whole);
}

static void what_was_kept_is_computed_in_chunks_like_a_prompt(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    rig_init(&rest);
    rest.options.chunk_tokens = 100;
    rig_start(&rest);
    submit_behind(&rest, make(&rest), whole.seen[1].drawn, 10, 10);
    rig_run(&rest);
    assert_same(&rest.seen[1], &whole.seen[1]);
    assert_true(rest.seen[1].result.prefill_chunks >= 4);
    assert_int_equal(rest.seen[1].result.recomputed_tokens, 0);
    rig_end(&rest);
    rig_end(&whole);
}

static void the_prompts_blocks_are_reused_and_no_more_counted_than_it_has(void **state)
{
    struct engine_rig rig;
    (void)state;
    run_whole(&rig);
    struct rig_seen *seen = &rig.seen[1];
    struct mr_sample kept[ANSWER];
    memcpy(kept, seen->drawn, sizeof kept);
    *seen = (struct rig_seen){.started = 0};
    submit_behind(&rig, make(&rig), kept, 12, 12);
    rig_run(&rig);
    assert_int_equal(seen->choices[0].token_count, ANSWER);
    assert_true(seen->result.cached_tokens >= PROMPT - 1);
    assert_true(seen->result.cached_tokens <= PROMPT);
    rig_end(&rig);
}

static void kept_tokens_that_end_the_answer_are_sampled_again(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    rig_init(&rest);
    rig_start(&rest);
    submit_behind(&rest, make(&rest), whole.seen[1].drawn, ANSWER, ANSWER);
    rig_run(&rest);
    assert_same(&rest.seen[1], &whole.seen[1]);
    assert_int_equal(rest.seen[1].drawn_from, ANSWER - 1);
    rig_end(&rest);
    rig_end(&whole);
}

static void ids_beyond_the_vocabulary_end_the_kept_tokens(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    struct mr_sample kept[ANSWER];
    memcpy(kept, whole.seen[1].drawn, sizeof kept);
    rig_init(&rest);
    rig_start(&rest);
    kept[5].token_id = rest.fake_options.vocab_size;
    submit_behind(&rest, make(&rest), kept, 10, 0);
    rig_run(&rest);
    assert_same(&rest.seen[1], &whole.seen[1]);
    assert_int_equal(rest.seen[1].drawn_from, 5);
    rig_end(&rest);
    kept[5].token_id = 3;
    kept[2].top_count = 2;
    kept[2].top_ids[1] = UINT32_MAX;
    rig_init(&rest);
    rig_start(&rest);
    submit_behind(&rest, make(&rest), kept, 10, 10);
    rig_run(&rest);
    assert_same(&rest.seen[1], &whole.seen[1]);
    assert_int_equal(rest.seen[1].drawn_from, 2);
    rig_end(&rest);
    rig_end(&whole);
}

static void a_request_cancelled_before_it_starts_keeps_its_text(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    rig_init(&rest);
    rig_start(&rest);
    submit_behind(&rest, make(&rest), whole.seen[1].drawn, 9, 4);
    assert_true(mr_engine_cancel(rest.engine, 0, (struct mr_text){"a", 1}));
    rig_run(&rest);
    const struct rig_choice *choice = &rest.seen[1].choices[0];
    assert_int_equal(choice->finish, MR_FINISH_CANCELLED);
    assert_int_equal(choice->token_count, 9);
    assert_memory_equal(choice->tokens, whole.seen[1].choices[0].tokens, 9 * sizeof(uint32_t));
    assert_int_equal(choice->deltas, 5);
    rig_end(&rest);
    rig_end(&whole);
}

/* A reader that has all the tokens must still learn that this attempt continues them. */
static void an_attempt_that_adds_no_token_says_where_it_resumed(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    rig_init(&rest);
    rig_start(&rest);
    submit_behind(&rest, make(&rest), whole.seen[1].drawn, 9, 9);
    assert_true(mr_engine_cancel(rest.engine, 0, (struct mr_text){"a", 1}));
    rig_run(&rest);
    assert_int_equal(rest.seen[1].choices[0].token_count, 9);
    assert_int_equal(rest.seen[1].resumed, 1);
    assert_int_equal(rest.seen[1].choices[0].deltas, 1);
    assert_int_equal(rest.seen[1].choices[0].streamed_count, 9);
    rig_end(&rest);
    rig_end(&whole);
}

static void several_choices_begin_at_the_first_token(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    rig_init(&rest);
    rig_start(&rest);
    struct mr_request *request = make(&rest);
    request->choice_count = 2;
    submit_behind(&rest, request, whole.seen[1].drawn, 9, 4);
    rig_run(&rest);
    assert_int_equal(rest.seen[1].drawn_from, 0);
    assert_int_equal(rest.seen[1].resumed, 0);
    assert_int_equal(rest.seen[1].choices[1].token_count, ANSWER);
    rig_end(&rest);
    rig_end(&whole);
}

static void it_is_preempted_and_admitted_again_like_any_other(void **state)
{
    struct engine_rig whole, rest;
    (void)state;
    run_whole(&whole);
    rig_init(&rest);
    rest.options.force_preempt_every = 3;
    rig_start(&rest);
    submit_behind(&rest, make(&rest), whole.seen[1].drawn, 4, 2);
    rig_run(&rest);
    assert_same(&rest.seen[1], &whole.seen[1]);
    assert_true(rest.seen[1].result.preemptions > 0);
    rig_end(&rest);
    rig_end(&whole);
}

/* The previous worker had a larger pool. */
static void an_answer_that_this_pool_cannot_hold_ends_before_it_starts(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct mr_sample kept[ANSWER];
    uint32_t tokens[2 * MR_BLOCK_TOKENS], count = 2 * MR_BLOCK_TOKENS - 4;
    rig_init(&rig);
    rig.options.block_count = 2;
    rig_start(&rig);
    rig_tokens(&rig, 1, tokens, count);
    for (uint32_t i = 0; i < ANSWER; i++)
        kept[i] = (struct mr_sample){.token_id = 2 + i, .probability = 0.5f};
    struct mr_request *request = mr_fake_request("a", tokens, count);
    request->ignore_eos = true;
    request->max_tokens = 64;
    assert_int_equal(submit_behind(&rig, request, kept, ANSWER, ANSWER), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.seen[1].results, 1);
    assert_int_equal(rig.seen[1].started, 0);
    assert_int_equal(rig.seen[1].choices[0].finish, MR_FINISH_POOL_EXHAUSTED);
    assert_int_equal(rig.seen[1].choices[0].token_count, ANSWER);
    assert_int_equal(rig.seen[1].resumed, 1);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_this_pool_cannot_hold_ends_before_it_starts),
        cmocka_unit_test(an_answer_resumes_wherever_it_was_cut),
        cmocka_unit_test(the_text_before_a_resumed_answer_comes_with_it),
        cmocka_unit_test(what_was_kept_is_computed_in_chunks_like_a_prompt),
        cmocka_unit_test(the_prompts_blocks_are_reused_and_no_more_counted_than_it_has),
        cmocka_unit_test(kept_tokens_that_end_the_answer_are_sampled_again),
        cmocka_unit_test(ids_beyond_the_vocabulary_end_the_kept_tokens),
        cmocka_unit_test(a_request_cancelled_before_it_starts_keeps_its_text),
        cmocka_unit_test(an_attempt_that_adds_no_token_says_where_it_resumed),
        cmocka_unit_test(several_choices_begin_at_the_first_token),
        cmocka_unit_test(it_is_preempted_and_admitted_again_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
