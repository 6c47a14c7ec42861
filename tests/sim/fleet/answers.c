/* The answers that the fake model must give. A token depends on the tokens before it and, with a
 * temperature, on the request's seed and the token's number. Every token is one character. */
#include "codec/check.h"
#include "codec/hash.h"
#include "tests/fakes/fake_request.h"
#include "tests/sim/fleet/fleet.h"

#include <string.h>

#define STOPS 2u

static const char *const stop_texts[STOPS] = SCENARIO_STOPS;

/* The stop text at the end of the text; NULL: none. */
static const char *find_stop(const char *text, uint32_t length)
{
    for (uint32_t i = 0; i < STOPS; i++) {
        size_t size = strlen(stop_texts[i]);
        if (length >= size && memcmp(text + length - size, stop_texts[i], size) == 0)
            return stop_texts[i];
    }
    return NULL;
}

struct expected {
    enum mr_finish finish;
    uint32_t tokens[SIM_CONTEXT];
    char text[SIM_CONTEXT];
    uint32_t count, pushed; /* pushed: includes an end token and a stop text */
    const char *stop;
};

/* Adds the next token; false: it is the last one. */
static bool push(struct expected *expected, const struct plan *plan, uint32_t token)
{
    const char *stop = NULL;
    if (token != MR_FAKE_END) {
        expected->tokens[expected->count] = token;
        expected->text[expected->count++] = (char)(token - 1);
        if (plan->stops) stop = find_stop(expected->text, expected->count);
        if (stop) expected->count -= (uint32_t)strlen(stop);
    }
    if (++expected->pushed == plan->max_tokens) {
        expected->finish = MR_FINISH_LENGTH;
    } else if (token == MR_FAKE_END) {
        expected->finish = MR_FINISH_EOS;
    } else if (stop) {
        expected->finish = MR_FINISH_STOP_STRING;
        expected->stop = stop;
    } else if (plan->prompt.length + expected->pushed == SIM_CONTEXT) {
        expected->finish = MR_FINISH_CONTEXT_FULL;
    }
    return expected->finish == MR_FINISH_NONE;
}

static void expect(struct expected *expected, const struct fleet *fleet, const struct plan *plan,
                   uint32_t choice)
{
    struct mr_fake_model model = {
        .options = {.vocab_size = SIM_VOCABULARY,
                    .repeats = worker_sim_repeats(fleet->scenario->steps_ahead)}};
    uint32_t history[SIM_CONTEXT + 1], count = (uint32_t)plan->prompt.length, next;
    float temperature = plan->drawn ? SCENARIO_TEMPERATURE : 0.0f;
    uint64_t seed =
        mr_hash_bytes(MR_HASH_START, plan->id, strlen(plan->id)) + choice * 0x9e3779b97f4a7c15u;
    *expected = (struct expected){.finish = MR_FINISH_NONE};
    for (uint32_t i = 0; i < count; i++)
        history[i] = (uint32_t)(unsigned char)plan->prompt.bytes[i] + 1;
    do {
        next = mr_fake_next(&model, history, count, temperature, seed);
        history[count++] = next;
    } while (push(expected, plan, next));
}

static void judge_choice(struct fleet *fleet, const struct plan *plan,
                         const struct mr_choice *choice, uint32_t index)
{
    struct expected expected;
    expect(&expected, fleet, plan, index);
    /* a cancel or a deadline may end one choice after another choice has finished */
    bool ended = choice->finish <= MR_FINISH_CONTEXT_FULL;
    size_t count = choice->token_count;
    if (ended && choice->finish != expected.finish)
        fleet_accuse(fleet, "answer: choice %u of %s ends with %s instead of %s", index, plan->id,
                     mr_finish_text(choice->finish), mr_finish_text(expected.finish));
    if ((ended && count != expected.count) || count > expected.count ||
        memcmp(choice->token_ids, expected.tokens, count * sizeof *expected.tokens) != 0)
        fleet_accuse(fleet, "answer: choice %u of %s has other tokens than the model generates",
                     index, plan->id);
    if (choice->text.length != count || memcmp(choice->text.bytes, expected.text, count) != 0)
        fleet_accuse(fleet, "answer: choice %u of %s has another text than its tokens", index,
                     plan->id);
    if (ended && expected.stop && !mr_text_is(choice->stop_text, expected.stop))
        fleet_accuse(fleet, "answer: choice %u of %s names another stop text", index, plan->id);
}

void judge_answer(struct fleet *fleet, const struct plan *plan, const struct mr_result *result)
{
    if (result->choice_count != plan->choices)
        fleet_accuse(fleet, "answer: %s has %zu choices", plan->id, result->choice_count);
    for (uint32_t i = 0; i < result->choice_count; i++)
        judge_choice(fleet, plan, &result->choices[i], i);
}
