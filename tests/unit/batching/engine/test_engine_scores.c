/* The log-probability of each prompt token is the model's, given the tokens before, independent of
 * cached blocks, chunk sizes and the other requests in the step. */
#include "tests/fakes/engine_rig.h"

#include "kvcache/kv_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROMPT 600u
#define OUTPUT 8u
#define WINDOW (MR_BLOCK_TOKENS + 20u)

static struct mr_request *make(const struct engine_rig *rig, const char *id, uint32_t count,
                               uint32_t top)
{
    uint32_t tokens[RIG_SCORES_MAX];
    rig_tokens(rig, 1, tokens, count);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->ignore_eos = true;
    request->max_tokens = OUTPUT;
    request->scores_prompt = true;
    request->prompt_logprobs = top;
    return request;
}

static void check_scores(const struct engine_rig *rig, uint64_t ticket, uint32_t count,
                         uint32_t top)
{
    uint32_t tokens[RIG_SCORES_MAX];
    const struct rig_seen *seen = &rig->seen[ticket];
    rig_tokens(rig, 1, tokens, count);
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->result.prompt_logprob_count, count);
    for (uint32_t i = 1; i < count; i++) {
        assert_int_equal(seen->scores[i].token_id, tokens[i]);
        assert_int_equal(seen->scores[i].top_count, top);
        if (seen->scores[i].logprob != mr_fake_logprob(rig->fake, tokens, i, tokens[i]))
            fail_msg("token %u has log-probability %g", i, (double)seen->scores[i].logprob);
    }
}

static void check_answer(const struct engine_rig *rig, uint64_t ticket, uint32_t count)
{
    uint32_t tokens[RIG_SCORES_MAX], expected[OUTPUT];
    const struct rig_choice *choice = &rig->seen[ticket].choices[0];
    rig_tokens(rig, 1, tokens, count);
    rig_expect(rig, tokens, count, expected, OUTPUT);
    assert_int_equal(choice->completion_tokens, OUTPUT);
    assert_memory_equal(choice->tokens, expected, sizeof expected);
}

static void run_one(struct engine_rig *rig, uint32_t count)
{
    assert_int_equal(rig_submit(rig, 0, make(rig, "a", count, 2)), MR_OK);
    rig_run(rig);
    check_scores(rig, 0, count, 2);
    check_answer(rig, 0, count);
}

static void prompts_of_any_length_and_chunk(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 2, 63, 64, 65, 255, 256, 257, PROMPT};
    static const int32_t chunks[] = {0, 1, 7, 64, 512};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
            struct engine_rig rig;
            rig_init(&rig);
            rig.options.chunk_tokens = chunks[k];
            rig_start(&rig);
            run_one(&rig, lengths[i]);
            rig_end(&rig);
        }
}

static void a_step_has_no_more_scored_rows_than_the_option(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", PROMPT, 0)), MR_OK);
    uint32_t steps = 0;
    while (rig_step(&rig))
        steps++;
    check_scores(&rig, 0, PROMPT, 0);
    assert_true(steps >= (PROMPT - 1) / 64 + OUTPUT - 1);
    rig_end(&rig);
}

static void steps_in_flight_change_nothing(void **state)
{
    (void)state;
    for (uint32_t ahead = 1; ahead <= MR_STEPS_AHEAD_MAX; ahead++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.fake_options.steps_ahead = ahead;
        rig.fake_options.remote = true;
        rig_start(&rig);
        run_one(&rig, PROMPT);
        rig_end(&rig);
    }
}

static void a_cached_prompt_is_computed_again_and_then_serves_others(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prompt_cache_entries = 4;
    rig_start(&rig);
    for (uint64_t ticket = 0; ticket < 3; ticket++) {
        struct mr_request *request = make(&rig, ticket == 0 ? "a" : "b", PROMPT, 3);
        request->scores_prompt = ticket != 1;
        uint64_t rows = rig.fake->row_count;
        assert_int_equal(rig_submit(&rig, ticket, request), MR_OK);
        rig_run(&rig);
        check_answer(&rig, ticket, PROMPT);
        if (ticket != 1) check_scores(&rig, ticket, PROMPT, 3);
        rows = rig.fake->row_count - rows;
        assert_int_equal(rows, ticket == 1 ? OUTPUT - 1 : PROMPT + OUTPUT - 1);
        assert_int_equal(rig.seen[ticket].result.cached_tokens, ticket == 1 ? PROMPT : 0);
    }
    rig_end(&rig);
}

static void requests_share_steps(void **state)
{
    (void)state;
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.prefills_max = 4;
    rig_start(&rig);
    for (uint64_t ticket = 0; ticket < 10; ticket++) {
        struct mr_request *request = make(&rig, ids[ticket], 50 + 37 * (uint32_t)ticket, 1);
        request->scores_prompt = ticket % 3 != 2;
        assert_int_equal(rig_submit(&rig, ticket, request), MR_OK);
    }
    rig_run(&rig);
    for (uint64_t ticket = 0; ticket < 10; ticket++) {
        check_answer(&rig, ticket, 50 + 37 * (uint32_t)ticket);
        if (ticket % 3 != 2) check_scores(&rig, ticket, 50 + 37 * (uint32_t)ticket, 1);
    }
    rig_end(&rig);
}

static void preempted_prompts_keep_what_is_scored(void **state)
{
    (void)state;
    for (uint32_t ahead = 0; ahead <= MR_STEPS_AHEAD_MAX; ahead++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.options.block_count = RIG_BLOCKS(1280);
        rig.options.prefills_max = 4;
        rig.fake_options.steps_ahead = ahead;
        rig.fake_options.remote = true;
        rig_start(&rig);
        struct mr_request *old = make(&rig, "old", 250, 0);
        old->max_tokens = 500;
        assert_int_equal(rig_submit(&rig, 0, old), MR_OK);
        for (uint32_t i = 0; i < 100; i++)
            assert_true(rig_step(&rig));
        assert_int_equal(rig_submit(&rig, 1, make(&rig, "new", 700, 1)), MR_OK);
        rig_run(&rig);
        check_scores(&rig, 0, 250, 0);
        check_scores(&rig, 1, 700, 1);
        check_answer(&rig, 1, 700);
        rig_end(&rig);
    }
}

static void choices_share_the_scored_prompt(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct mr_request *request = make(&rig, "a", PROMPT, 2);
    request->choice_count = 4;
    assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
    rig_run(&rig);
    check_scores(&rig, 0, PROMPT, 2);
    assert_int_equal(rig.seen[0].choice_count, 4);
    assert_int_equal(rig.fake->row_count, PROMPT + 4 * (OUTPUT - 1));
    rig_end(&rig);
}

static void sliding_windows_change_nothing(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.window_tokens = WINDOW;
    rig.options.window_slots = 64 * mr_kv_window_blocks(WINDOW, 512);
    rig_start(&rig);
    run_one(&rig, PROMPT);
    rig_end(&rig);
}

static void a_resumed_request_has_them_too(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    uint32_t tokens[PROMPT], expected[OUTPUT];
    struct mr_sample kept[3];
    rig_tokens(&rig, 1, tokens, PROMPT);
    rig_expect(&rig, tokens, PROMPT, expected, OUTPUT);
    for (uint32_t i = 0; i < 3; i++)
        kept[i] = (struct mr_sample){.token_id = expected[i], .probability = 0.5f};
    struct mr_submission submission = {.request = make(&rig, "a", PROMPT, 2),
                                       .tenant = "default",
                                       .kept = kept,
                                       .kept_count = 3,
                                       .kept_shown = 3};
    assert_int_equal(rig_submit_as(&rig, submission), MR_OK);
    rig_run(&rig);
    check_scores(&rig, 0, PROMPT, 2);
    check_answer(&rig, 0, PROMPT);
    rig_end(&rig);
}

static void without_max_tokens_nothing_is_generated(void **state)
{
    (void)state;
    for (uint32_t ahead = 0; ahead <= MR_STEPS_AHEAD_MAX; ahead++)
        for (uint32_t count = 1; count <= PROMPT; count += PROMPT - 1) {
            struct engine_rig rig;
            rig_init(&rig);
            rig.fake_options.steps_ahead = ahead;
            rig.fake_options.remote = true;
            rig_start(&rig);
            struct mr_request *request = make(&rig, "a", count, 1);
            request->max_tokens = 0;
            assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
            rig_run(&rig);
            check_scores(&rig, 0, count, 1);
            assert_int_equal(rig.seen[0].choices[0].completion_tokens, 0);
            assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_LENGTH);
            assert_int_equal(rig.seen[0].choices[0].deltas, 0);
            rig_end(&rig);
        }
}

static void logits_that_are_not_finite_end_the_request(void **state)
{
    (void)state;
    for (uint32_t max_tokens = 0; max_tokens <= OUTPUT; max_tokens += OUTPUT) {
        struct engine_rig rig;
        rig_init(&rig);
        rig_start(&rig);
        rig.fake->broken_position = 70;
        struct mr_request *request = make(&rig, "a", PROMPT, 1);
        request->max_tokens = max_tokens;
        assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
        rig_run(&rig);
        assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_ERROR);
        assert_int_equal(rig.seen[0].result.error, MR_INTERNAL);
        rig_end(&rig);
    }
}

static void what_cannot_be_had_is_refused(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.score_rows_max = 0;
    rig_start(&rig);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", 10, 0)), MR_UNSUPPORTED);
    rig_end(&rig);
    rig_init(&rig);
    rig_start(&rig);
    struct mr_request *request = make(&rig, "a", 10, 0);
    request->max_tokens = 0;
    request->scores_prompt = false;
    assert_int_equal(rig_submit(&rig, 0, request), MR_INVALID_REQUEST);
    request = make(&rig, "a", 10, 0);
    request->max_tokens = 0;
    request->choice_count = 2;
    assert_int_equal(rig_submit(&rig, 0, request), MR_INVALID_REQUEST);
    rig_end(&rig);
}

/* ---- continuations ---- */

/* The tokens of continuation `index` of length `count`. */
static void continuation_tokens(const struct engine_rig *rig, uint32_t index, uint32_t *out,
                                uint32_t count)
{
    rig_tokens(rig, 100 + index, out, count);
}

static struct mr_request *make_score(const struct engine_rig *rig, const char *id, uint32_t prompt,
                                     const uint32_t *lengths, uint32_t count)
{
    struct mr_request *request = make(rig, id, prompt, 0);
    request->task = MR_TASK_SCORE;
    request->scores_prompt = false;
    request->max_tokens = 0;
    request->sampling.logprobs = 2;
    request->continuations =
        mr_arena_take_array(request->arena, count, sizeof *request->continuations);
    request->continuation_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tokens[RIG_SCORES_MAX];
        continuation_tokens(rig, i, tokens, lengths[i]);
        request->continuations[i].token_ids = mr_fake_ids(request, tokens, lengths[i]);
        request->continuations[i].token_count = lengths[i];
    }
    return request;
}

static void check_continuations(const struct engine_rig *rig, uint64_t ticket, uint32_t prompt,
                                const uint32_t *lengths, uint32_t count)
{
    const struct rig_seen *seen = &rig->seen[ticket];
    uint32_t tokens[2 * RIG_SCORES_MAX], next = 0;
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->choices[0].finish, MR_FINISH_LENGTH);
    assert_int_equal(seen->choices[0].completion_tokens, 0);
    assert_int_equal(seen->result.score_count, count);
    rig_tokens(rig, 1, tokens, prompt);
    for (uint32_t i = 0; i < count; i++) {
        continuation_tokens(rig, i, tokens + prompt, lengths[i]);
        assert_int_equal(seen->continuation_tokens[i], lengths[i]);
        for (uint32_t k = 0; k < lengths[i]; k++, next++) {
            const uint32_t at = prompt + k;
            assert_int_equal(seen->scores[next].token_id, tokens[at]);
            assert_int_equal(seen->scores[next].top_count, 2);
            if (seen->scores[next].logprob != mr_fake_logprob(rig->fake, tokens, at, tokens[at]))
                fail_msg("token %u of continuation %u has %g", k, i,
                         (double)seen->scores[next].logprob);
        }
    }
    assert_int_equal(seen->result.prompt_tokens, prompt + next);
}

static const uint32_t mixed[] = {3, 1, 40, 1, 300, 2, 7};
#define MIXED (sizeof mixed / sizeof *mixed)

static void continuations_of_any_length_are_scored(void **state)
{
    (void)state;
    static const uint32_t prompts[] = {1, 2, 64, 255, 256, 257, PROMPT};
    static const int32_t chunks[] = {0, 1, 64, 512};
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++)
            for (uint32_t ahead = 0; ahead <= MR_STEPS_AHEAD_MAX; ahead++) {
                struct engine_rig rig;
                rig_init(&rig);
                rig.options.chunk_tokens = chunks[k];
                rig.fake_options.steps_ahead = ahead;
                rig.fake_options.remote = true;
                rig_start(&rig);
                assert_int_equal(
                    rig_submit(&rig, 0, make_score(&rig, "a", prompts[i], mixed, MIXED)), MR_OK);
                rig_run(&rig);
                check_continuations(&rig, 0, prompts[i], mixed, MIXED);
                rig_end(&rig);
            }
}

static void labels_of_one_token_need_one_step(void **state)
{
    (void)state;
    uint32_t ones[MR_CONTINUATIONS_MAX];
    for (size_t i = 0; i < MR_CONTINUATIONS_MAX; i++)
        ones[i] = 1;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    struct mr_request *request = make_score(&rig, "a", 500, ones, MR_CONTINUATIONS_MAX);
    assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
    rig_run(&rig);
    check_continuations(&rig, 0, 500, ones, MR_CONTINUATIONS_MAX);
    assert_int_equal(rig.fake->forward_count, 1);
    assert_int_equal(rig.fake->row_count, 500);
    rig_end(&rig);
}

/* The prompt is computed once for all continuations, also for those of another request. Blocks with
 * tokens of continuations are never found in the prefix index. */
static void the_prompt_of_continuations_is_computed_once(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < MIXED; i++)
        rows += mixed[i] - 1;
    assert_int_equal(rig_submit(&rig, 0, make_score(&rig, "a", PROMPT, mixed, MIXED)), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.fake->row_count, PROMPT + rows);
    assert_int_equal(rig.seen[0].result.recomputed_tokens, 0);
    assert_int_equal(rig_submit(&rig, 1, make_score(&rig, "b", PROMPT, mixed, MIXED)), MR_OK);
    rig_run(&rig);
    check_continuations(&rig, 1, PROMPT, mixed, MIXED);
    assert_int_equal(rig.fake->row_count, PROMPT + rows + 1 + rows);
    struct mr_request *longer = make(&rig, "c", 1000, 0);
    longer->scores_prompt = false;
    assert_int_equal(rig_submit(&rig, 2, longer), MR_OK);
    rig_run(&rig);
    check_answer(&rig, 2, 1000);
    assert_int_equal(rig.seen[2].result.cached_tokens, PROMPT);
    rig_end(&rig);
}

static void continuations_go_back_behind_a_sliding_window(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.window_tokens = WINDOW;
    rig.options.window_slots = 64 * mr_kv_window_blocks(WINDOW, 512);
    rig_start(&rig);
    static const uint32_t lengths[] = {900, 3, 700, 1};
    assert_int_equal(rig_submit(&rig, 0, make_score(&rig, "a", PROMPT, lengths, 4)), MR_OK);
    rig_run(&rig);
    check_continuations(&rig, 0, PROMPT, lengths, 4);
    rig_end(&rig);
}

static void continuations_share_steps_with_other_requests(void **state)
{
    (void)state;
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    for (uint32_t ahead = 0; ahead <= MR_STEPS_AHEAD_MAX; ahead++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.options.prefills_max = 4;
        rig.options.block_count = RIG_BLOCKS(4096);
        rig.fake_options.steps_ahead = ahead;
        rig.fake_options.remote = true;
        rig_start(&rig);
        for (uint64_t ticket = 0; ticket < 10; ticket++) {
            const uint32_t prompt = 50 + 61 * (uint32_t)ticket;
            struct mr_request *request = ticket % 2 == 0
                                             ? make_score(&rig, ids[ticket], prompt, mixed, MIXED)
                                             : make(&rig, ids[ticket], prompt, 1);
            assert_int_equal(rig_submit(&rig, ticket, request), MR_OK);
        }
        rig_run(&rig);
        for (uint64_t ticket = 0; ticket < 10; ticket++) {
            const uint32_t prompt = 50 + 61 * (uint32_t)ticket;
            if (ticket % 2 == 0)
                check_continuations(&rig, ticket, prompt, mixed, MIXED);
            else
                check_scores(&rig, ticket, prompt, 1);
        }
        rig_end(&rig);
    }
}

static void continuations_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.options.score_rows_max = 3;
    rig_start(&rig);
    static const uint32_t small[] = {1, 1, 1, 1}, large[] = {1500, 1};
    assert_int_equal(rig_submit(&rig, 0, make_score(&rig, "a", 10, small, 4)), MR_UNSUPPORTED);
    assert_int_equal(rig_submit(&rig, 0, make_score(&rig, "a", 800, large, 2)), MR_PROMPT_TOO_LONG);
    struct mr_request *request = make_score(&rig, "a", 10, small, 3);
    request->continuations[1].token_ids = mr_fake_ids(request, (const uint32_t[]){200}, 1);
    assert_int_equal(rig_submit(&rig, 0, request), MR_INVALID_TOKEN_ID);
    assert_int_equal(rig_submit(&rig, 0, make_score(&rig, "a", 10, small, 3)), MR_OK);
    rig_run(&rig);
    check_continuations(&rig, 0, 10, small, 3);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_any_length_and_chunk),
        cmocka_unit_test(a_step_has_no_more_scored_rows_than_the_option),
        cmocka_unit_test(steps_in_flight_change_nothing),
        cmocka_unit_test(a_cached_prompt_is_computed_again_and_then_serves_others),
        cmocka_unit_test(requests_share_steps),
        cmocka_unit_test(preempted_prompts_keep_what_is_scored),
        cmocka_unit_test(choices_share_the_scored_prompt),
        cmocka_unit_test(sliding_windows_change_nothing),
        cmocka_unit_test(a_resumed_request_has_them_too),
        cmocka_unit_test(without_max_tokens_nothing_is_generated),
        cmocka_unit_test(logits_that_are_not_finite_end_the_request),
        cmocka_unit_test(what_cannot_be_had_is_refused),
        cmocka_unit_test(continuations_of_any_length_are_scored),
        cmocka_unit_test(labels_of_one_token_need_one_step),
        cmocka_unit_test(the_prompt_of_continuations_is_computed_once),
        cmocka_unit_test(continuations_go_back_behind_a_sliding_window),
        cmocka_unit_test(continuations_share_steps_with_other_requests),
        cmocka_unit_test(continuations_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
