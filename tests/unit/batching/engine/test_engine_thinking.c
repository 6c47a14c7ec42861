/* thinking_token_budget: the end of reasoning is forced, whatever computes ahead. */
#include "codec/records/opened.h"
#include "codec/tokenizer/stop_match.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define PROMPT 20u
#define OUTPUT 24u
#define BUDGET 5u
#define END    8u /* tokens of </think>: the fake tokenizer has one for each byte */

static struct mr_request *make(const uint32_t prompt[PROMPT], uint32_t choices)
{
    struct mr_request *request = mr_fake_request("id", prompt, PROMPT);
    struct mr_thinking_limit *limit = &request->thinking;
    struct mr_error err;
    uint32_t ids[END];
    size_t count;
    for (size_t i = 0; i < END; i++)
        ids[i] = (uint32_t)(unsigned char)MR_REASONING_END[i] + 1;
    request->ignore_eos = true;
    request->max_tokens = OUTPUT;
    request->choice_count = choices;
    request->min_confidence = 1e-9f; /* a forced token has no chance of its own */
    limit->given = true;
    limit->tokens = BUDGET;
    limit->end_ids = mr_fake_ids(request, ids, END);
    limit->end_count = END;
    limit->opened = mr_opened_text(MR_TOOLS_NONE, MR_OPENED_TAG);
    const struct mr_text *words = mr_opened_words(MR_TOOLS_NONE, &count);
    assert_int_equal(mr_stop_match_create(&limit->words, request->arena, words, count, &err),
                     MR_OK);
    return request;
}

/* The answer: the model's tokens, the end of reasoning, and what the model adds to both. */
static void expect(const struct engine_rig *rig, const uint32_t prompt[PROMPT],
                   uint32_t out[OUTPUT])
{
    uint32_t all[PROMPT + OUTPUT];
    memcpy(all, prompt, PROMPT * sizeof *all);
    rig_expect(rig, all, PROMPT, all + PROMPT, BUDGET);
    for (size_t i = 0; i < END; i++)
        all[PROMPT + BUDGET + i] = (uint32_t)(unsigned char)MR_REASONING_END[i] + 1;
    rig_expect(rig, all, PROMPT + BUDGET + END, all + PROMPT + BUDGET + END, OUTPUT - BUDGET - END);
    memcpy(out, all + PROMPT, OUTPUT * sizeof *out);
}

static void the_end_of_reasoning_is_forced(void **state)
{
    (void)state;
    for (uint32_t ahead = 0; ahead < 2; ahead++)
        for (uint32_t drafts = 0; drafts < 9; drafts += 8)
            for (uint32_t choices = 1; choices < 3; choices++) {
                struct engine_rig rig;
                uint32_t prompt[PROMPT], want[OUTPUT];
                rig_init(&rig);
                rig.fake_options.steps_ahead = ahead;
                rig.options.draft_rows_max = drafts;
                rig_start(&rig);
                rig_tokens(&rig, 3, prompt, PROMPT);
                expect(&rig, prompt, want);
                assert_int_equal(rig_submit(&rig, 0, make(prompt, choices)), MR_OK);
                rig_run(&rig);
                for (uint32_t i = 0; i < choices; i++) {
                    const struct rig_choice *choice = &rig.seen[0].choices[i];
                    assert_int_equal(choice->finish, MR_FINISH_LENGTH);
                    assert_int_equal(choice->token_count, OUTPUT);
                    assert_memory_equal(choice->tokens, want, sizeof want);
                }
                rig_end(&rig);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_reasoning_is_forced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
