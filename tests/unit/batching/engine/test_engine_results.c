#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PROMPT 600u

static struct mr_request *make(struct engine_rig *rig, const char *id, uint64_t salt)
{
    uint32_t tokens[PROMPT];
    rig_tokens(rig, salt, tokens, PROMPT);
    struct mr_request *request = mr_fake_request(id, tokens, PROMPT);
    request->ignore_eos = true;
    request->max_tokens = 16;
    return request;
}

static void assert_internal_error(const struct engine_rig *rig, uint32_t ticket, uint32_t choices)
{
    const struct rig_seen *seen = &rig->seen[ticket];
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->choice_count, choices);
    for (uint32_t i = 0; i < choices; i++)
        assert_int_equal(seen->choices[i].finish, MR_FINISH_ERROR);
    assert_int_equal(seen->result.error, MR_INTERNAL);
    assert_true(seen->result.error_retryable);
}

static void assert_answers(const struct engine_rig *rig, uint32_t ticket, uint64_t salt)
{
    uint32_t prompt[PROMPT], wanted[16];
    rig_tokens(rig, salt, prompt, PROMPT);
    rig_expect(rig, prompt, PROMPT, wanted, 16);
    assert_int_equal(rig->seen[ticket].choices[0].token_count, 16);
    assert_memory_equal(rig->seen[ticket].choices[0].tokens, wanted, sizeof wanted);
}

static void logits_that_are_not_finite_end_the_request_and_no_other(void **state)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.fake_options.steps_ahead = *(const uint32_t *)*state;
    rig_start(&rig);
    rig.fake->broken_position = PROMPT + 5;
    uint32_t shorter[100], wanted[16];
    rig_tokens(&rig, 2, shorter, 100);
    struct mr_request *other = mr_fake_request("other", shorter, 100);
    other->ignore_eos = true;
    other->max_tokens = 16;
    rig_submit(&rig, 0, make(&rig, "broken", 1));
    rig_submit(&rig, 1, other);
    rig_run(&rig);
    assert_internal_error(&rig, 0, 1);
    assert_int_equal(rig.seen[0].choices[0].token_count, 5); /* the text so far is kept */
    rig_expect(&rig, shorter, 100, wanted, 16);
    assert_memory_equal(rig.seen[1].choices[0].tokens, wanted, sizeof wanted);
    rig_end(&rig);
}

static void every_choice_of_the_request_ends(void **state)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.fake_options.steps_ahead = *(const uint32_t *)*state;
    rig_start(&rig);
    for (uint32_t position = PROMPT; position < PROMPT + 4; position += 3) {
        rig.fake->broken_position = position;
        struct mr_request *request = make(&rig, "choices", position);
        request->choice_count = 4;
        rig_submit(&rig, position - PROMPT, request);
        rig_run(&rig);
        assert_internal_error(&rig, position - PROMPT, 4);
    }
    rig_end(&rig);
}

/* The step that draws the first token must not leave logits or the last block of the prompt. */
static void nothing_that_the_last_step_computed_is_used_again(void **state)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.fake_options.steps_ahead = *(const uint32_t *)*state;
    rig.options.prompt_cache_entries = 4;
    rig.options.chunk_tokens = 0;
    rig_start(&rig);
    rig.fake->broken_position = PROMPT;
    rig_submit(&rig, 0, make(&rig, "broken", 1));
    rig_run(&rig);
    assert_internal_error(&rig, 0, 1);
    rig.fake->broken_position = 0;
    rig_submit(&rig, 1, make(&rig, "again", 1));
    rig_run(&rig);
    assert_answers(&rig, 1, 1);
    assert_int_equal(rig.seen[1].result.cached_tokens, 0);
    rig_submit(&rig, 2, make(&rig, "whole", 1)); /* now its logits are cached */
    rig.fake->broken_position = PROMPT;
    rig_run(&rig);
    assert_internal_error(&rig, 2, 1);
    rig.fake->broken_position = 0;
    uint64_t forwards = rig.fake->forward_count;
    struct mr_request *request = make(&rig, "last", 1);
    request->max_tokens = 1;
    rig_submit(&rig, 3, request);
    rig_run(&rig);
    assert_int_equal(rig.fake->forward_count, forwards + 1); /* they were dropped */
    rig_end(&rig);
}

/* A step in flight may have logits that are not finite, so its KV is not in the prefix index when
 * the previous step is collected. */
static void only_chunks_of_collected_steps_are_used_again(void **state)
{
    struct engine_rig rig;
    uint32_t prompt[2 * MR_BLOCK_TOKENS];
    rig_init(&rig);
    rig.fake_options.steps_ahead = *(const uint32_t *)*state;
    rig.options.chunk_tokens = MR_BLOCK_TOKENS;
    rig.options.rows_max = 2 * MR_BLOCK_TOKENS;
    rig_start(&rig);
    rig_tokens(&rig, 1, prompt, 2 * MR_BLOCK_TOKENS);
    rig.fake->broken_position = 2 * MR_BLOCK_TOKENS;
    rig_submit(&rig, 0, mr_fake_request("broken", prompt, 2 * MR_BLOCK_TOKENS));
    rig_run(&rig);
    assert_internal_error(&rig, 0, 1);
    rig.fake->broken_position = 0;
    rig_submit(&rig, 1, mr_fake_request("again", prompt, 2 * MR_BLOCK_TOKENS));
    rig_run(&rig);
    assert_int_equal(rig.seen[1].result.cached_tokens, MR_BLOCK_TOKENS);
    rig_end(&rig);
}

#define AT(test, ahead) cmocka_unit_test_prestate(test, &steps_ahead[ahead])

int main(void)
{
    static uint32_t steps_ahead[] = {0, 1, 2}; /* of the model */
    const struct CMUnitTest tests[] = {
        AT(logits_that_are_not_finite_end_the_request_and_no_other, 0),
        AT(logits_that_are_not_finite_end_the_request_and_no_other, 1),
        AT(logits_that_are_not_finite_end_the_request_and_no_other, 2),
        AT(every_choice_of_the_request_ends, 0),
        AT(every_choice_of_the_request_ends, 1),
        AT(every_choice_of_the_request_ends, 2),
        AT(nothing_that_the_last_step_computed_is_used_again, 0),
        AT(nothing_that_the_last_step_computed_is_used_again, 1),
        AT(nothing_that_the_last_step_computed_is_used_again, 2),
        AT(only_chunks_of_collected_steps_are_used_again, 0),
        AT(only_chunks_of_collected_steps_are_used_again, 1),
        AT(only_chunks_of_collected_steps_are_used_again, 2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
