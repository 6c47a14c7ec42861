/* Constrained answers in the engine: those whose masks are costly share one place in each step, so
 * the others go on at every step. */
#include "batching/engine_state.h"
#include "codec/constraint/constraint.h"
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Every place in it has many ways to go on. */
#define COSTLY "((.{1,300}){1,300}x?){1,300}"

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
            (struct mr_constraint){MR_CONSTRAINT_REGEX, {pattern, strlen(pattern)}};
        if (mr_constraint_compile(&request->grammar, &request->constraint, NULL, &err) != MR_OK)
            fail_msg("%s", err.detail);
    }
    assert_int_equal(rig_submit(rig, ticket, request), MR_OK);
}

static uint32_t drawn(const struct engine_rig *rig, uint32_t ticket)
{
    return rig->seen[ticket].drawn_end;
}

static void costly_answers_take_turns_and_the_others_do_not_wait(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t steps = 0, least = UINT32_MAX, most = 0, together = 0;
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t ticket = 0; ticket < ALL; ticket++)
        ask(&rig, ticket, ticket < HOSTILE ? COSTLY : ticket == HOSTILE ? "[a-z]*" : NULL);
    for (; rig.seen[HOSTILE].results == 0 || rig.seen[HOSTILE + 1].results == 0; steps++)
        assert_true(rig_step(&rig));
    assert_int_equal(steps, TOKENS); /* none of them has missed a step */
    for (uint32_t ticket = 0; ticket < HOSTILE; ticket++) {
        least = drawn(&rig, ticket) < least ? drawn(&rig, ticket) : least;
        most = drawn(&rig, ticket) > most ? drawn(&rig, ticket) : most;
        together += drawn(&rig, ticket);
    }
    assert_true(most - least <= GRACE);
    assert_true(together <= TOKENS + HOSTILE * GRACE); /* about one in each step */
    rig_run(&rig);
    for (uint32_t ticket = 0; ticket < ALL; ticket++)
        assert_int_equal(drawn(&rig, ticket), TOKENS);
    rig_end(&rig);
}

/* A costly answer alone has every step. */
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
        cmocka_unit_test(costly_answers_take_turns_and_the_others_do_not_wait),
        cmocka_unit_test(a_costly_answer_alone_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
