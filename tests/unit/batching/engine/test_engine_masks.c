/* Constrained answers in the engine: answers with costly masks share one place in each step, so the
 * other answers continue, and the masks of a step take a bounded time. */
#include "batching/engine/engine_state.h"
#include "codec/constraint/constraint.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* At every position the pattern allows many continuations. */
#define COSTLY "((.{1,300}){1,300}x?){1,300}"

/* More units of work than one answer needs to advance by one byte of the pattern. */
#define PASS_WORK 30000u

enum { TOKENS = 40, PROMPT = 8, HOSTILE = 4, ALL = 6, GRACE = 6 };

/* An answer of TOKENS tokens; pattern NULL: a free one. */
static void ask(struct engine_rig *rig, uint32_t ticket, const char *pattern)
{
    char id[16];
    uint32_t tokens[PROMPT];
    struct mr_error err = {.detail = ""};
    snprintf(id, sizeof id, "r%u", ticket);
    rig_tokens(rig, ticket + 1, tokens, PROMPT);
    struct mr_request *request = mr_fake_request(id, tokens, PROMPT);
    request->min_tokens = request->max_tokens = TOKENS;
    if (pattern != NULL) {
        request->constraint =
            (struct mr_constraint){MR_CONSTRAINT_REGEX, {pattern, strlen(pattern)}, false};
        if (mr_constraint_compile(&request->grammar, &request->constraint, NULL, &err) != MR_OK)
            fail_msg("%s", err.detail);
    }
    assert_int_equal(rig_submit(rig, ticket, request), MR_OK);
}

static uint32_t drawn(const struct engine_rig *rig, uint32_t ticket)
{
    return rig->seen[ticket].drawn_end;
}

/* *more: as rig_step() returns. */
static uint64_t work_of_step(struct engine_rig *rig, bool *more)
{
    const struct mr_token_mask *masks = rig->engine->rules.masks;
    const uint64_t before = mr_token_mask_work(masks);
    *more = rig_step(rig);
    return mr_token_mask_work(masks) - before;
}

/* One answer may take a step past mr_guidance_step_work(), and one costly answer has its turn. */
static bool step_within_bound(struct engine_rig *rig)
{
    bool more;
    const struct mr_token_mask *masks = rig->engine->rules.masks;
    const uint64_t one = mr_token_mask_work_max(masks) + PASS_WORK;
    assert_true(work_of_step(rig, &more) <= mr_guidance_step_work(masks) + 2 * one);
    return more;
}

static void costly_answers_take_turns_and_the_others_wait_little(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t steps = 0, least = UINT32_MAX, most = 0, together = 0;
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t ticket = 0; ticket < ALL; ticket++)
        ask(&rig, ticket, ticket < HOSTILE ? COSTLY : ticket == HOSTILE ? "[a-z]*" : NULL);
    for (; rig.seen[HOSTILE].results == 0 || rig.seen[HOSTILE + 1].results == 0; steps++) {
        assert_true(step_within_bound(&rig));
        /* the free answer never waits; the other waits until every hostile answer is known as
         * costly */
        assert_int_equal(drawn(&rig, HOSTILE + 1), steps < TOKENS ? steps + 1 : TOKENS);
    }
    assert_true(steps <= TOKENS + 2 * HOSTILE);
    for (uint32_t ticket = 0; ticket < HOSTILE; ticket++) {
        least = drawn(&rig, ticket) < least ? drawn(&rig, ticket) : least;
        most = drawn(&rig, ticket) > most ? drawn(&rig, ticket) : most;
        together += drawn(&rig, ticket);
    }
    assert_true(most - least <= GRACE);
    assert_true(together <= steps + HOSTILE * GRACE); /* about one in each step */
    rig_run(&rig);
    for (uint32_t ticket = 0; ticket < ALL; ticket++)
        assert_int_equal(drawn(&rig, ticket), TOKENS);
    rig_end(&rig);
}

/* All answers need their first masks in the same step. */
static void first_masks_are_spread_over_steps(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint64_t alone, together;
    bool more;
    rig_init(&rig);
    rig_start(&rig);
    const struct mr_token_mask *masks = rig.engine->rules.masks;
    const uint64_t most = mr_guidance_step_work(masks) + mr_token_mask_work_max(masks);
    ask(&rig, ALL + 1, COSTLY "y");
    alone = work_of_step(&rig, &more);
    rig_run(&rig);
    for (uint32_t ticket = 0; ticket <= ALL; ticket++)
        ask(&rig, ticket, COSTLY);
    together = work_of_step(&rig, &more);
    assert_true(together <= most && most < (ALL + 1) * alone);
    while (step_within_bound(&rig))
        ;
    for (uint32_t ticket = 0; ticket <= ALL; ticket++)
        assert_int_equal(drawn(&rig, ticket), TOKENS);
    rig_end(&rig);
}

/* A single costly answer runs in every step. */
static void a_costly_answer_alone_does_not_wait(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t steps = 0;
    rig_init(&rig);
    rig_start(&rig);
    ask(&rig, 0, COSTLY);
    while (rig_step(&rig))
        steps++;
    assert_int_equal(drawn(&rig, 0), TOKENS);
    assert_true(steps <= TOKENS);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costly_answers_take_turns_and_the_others_wait_little),
        cmocka_unit_test(first_masks_are_spread_over_steps),
        cmocka_unit_test(a_costly_answer_alone_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
