/* Steps in flight: the order of launch, collect and output; failures; the end of the engine. */
#include "tests/fakes/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROMPT 20u
#define OUTPUT 6u

static enum mr_status (*inner_launch)(void *, const struct mr_model_step *, struct mr_error *);
static enum mr_status (*inner_collect)(void *, struct mr_error *);
static char events[256];
static size_t event_count;

static void note(char event)
{
    assert_true(event_count + 1 < sizeof events);
    events[event_count++] = event;
    events[event_count] = 0;
}

static enum mr_status launch(void *context, const struct mr_model_step *step, struct mr_error *err)
{
    note('L');
    return inner_launch(context, step, err);
}

static enum mr_status collect(void *context, struct mr_error *err)
{
    note('C');
    return inner_collect(context, err);
}

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    (void)context, (void)ticket, (void)request, (void)record;
    note('T');
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    (void)context, (void)ticket, (void)result;
    note('R');
    mr_request_destroy(request);
}

/* An engine that notes its launches, collects, token records and results in `events`. */
static struct mr_engine *open_noting(struct engine_rig *rig, uint32_t steps_ahead)
{
    rig_init(rig);
    rig->fake_options.steps_ahead = steps_ahead;
    rig_start(rig);
    event_count = 0;
    inner_launch = rig->options.model.launch;
    inner_collect = rig->options.model.collect;
    struct mr_engine_options options = rig->options;
    options.model.launch = launch;
    options.model.collect = collect;
    struct mr_sink sink = {.delta = on_delta, .result = on_result};
    struct mr_engine *engine;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, NULL), MR_OK);
    return engine;
}

static struct mr_request *make(const struct engine_rig *rig)
{
    uint32_t tokens[PROMPT];
    rig_tokens(rig, 3, tokens, PROMPT);
    struct mr_request *request = mr_fake_request("a", tokens, PROMPT);
    request->max_tokens = 3;
    request->ignore_eos = true;
    return request;
}

static void run_noting(struct engine_rig *rig, struct mr_engine *engine)
{
    struct mr_submission submission = {.request = make(rig), .arrival_ns = 1, .tenant = ""};
    assert_int_equal(mr_engine_submit(engine, &submission, NULL), MR_OK);
    for (uint64_t wake_ns = 0; wake_ns != UINT64_MAX;)
        assert_int_equal(mr_engine_step(engine, rig->fake->now_ns, &wake_ns, NULL), MR_OK);
    mr_engine_destroy(engine);
    rig_end(rig);
}

static void a_model_that_computes_in_launch_is_collected_at_once(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct mr_engine *engine = open_noting(&rig, 0);
    run_noting(&rig, engine);
    assert_string_equal(events, "LCTLCTLCTR");
}

static void the_next_step_is_launched_before_the_tokens_are_passed_on(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct mr_engine *engine = open_noting(&rig, 1);
    run_noting(&rig, engine);
    assert_string_equal(events, "LCLTCLTCTR");
}

static void two_steps_are_in_flight_before_the_first_token_is_known(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct mr_engine *engine = open_noting(&rig, 2);
    run_noting(&rig, engine);
    /* the last token ends the request: no step is launched for a fourth one */
    assert_string_equal(events, "LLCLTCTCTR");
}

/* Starts a request of OUTPUT tokens and runs `steps` steps. */
static void run_steps(struct engine_rig *rig, uint32_t steps)
{
    uint32_t tokens[PROMPT];
    rig_tokens(rig, 3, tokens, PROMPT);
    struct mr_request *request = mr_fake_request("a", tokens, PROMPT);
    request->max_tokens = OUTPUT;
    request->ignore_eos = true;
    assert_int_equal(rig_submit(rig, 0, request), MR_OK);
    while (steps-- > 0)
        assert_true(rig_step(rig));
}

/* known: tokens streamed after three steps. */
static void fails(uint32_t steps_ahead, bool late, uint32_t known)
{
    struct engine_rig rig;
    struct mr_error err = {0};
    uint64_t wake_ns = 0;
    rig_init(&rig);
    rig.fake_options.steps_ahead = steps_ahead;
    rig.fake_options.fails_late = late;
    rig_start(&rig);
    run_steps(&rig, 3);
    assert_int_equal(rig.seen[0].choices[0].streamed_count, known);
    rig.fake->fail_after = 1;
    for (uint32_t i = 0; late && i < steps_ahead; i++, known++)
        assert_true(rig_step(&rig));
    if (!late) known++;
    assert_int_equal(mr_engine_step(rig.engine, rig.fake->now_ns, &wake_ns, &err), MR_BACKEND);
    assert_int_equal(err.status, MR_BACKEND);
    /* the tokens of earlier steps were passed on, and neither a later token nor a result */
    assert_int_equal(rig.seen[0].choices[0].streamed_count, known);
    assert_int_equal(rig.result_count, 0);
    rig_end(&rig);
}

static void a_step_may_fail_when_it_is_launched(void **state)
{
    (void)state;
    fails(1, false, 2);
    fails(2, false, 1);
}

static void a_step_may_fail_when_it_is_collected(void **state)
{
    (void)state;
    fails(1, true, 2);
    fails(2, true, 1);
}

static void the_end_of_the_engine_collects_the_steps_in_flight(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.fake_options.steps_ahead = 2;
    rig_start(&rig);
    run_steps(&rig, 3);
    struct mr_fake_model *fake = rig.fake;
    assert_int_equal(fake->launched - fake->collected, 2);
    mr_engine_destroy(rig.engine);
    rig.engine = NULL;
    assert_true(fake->collected == fake->launched);
    rig_end(&rig);
}

/* A step launched before the end token is known computes one token too many; its sample is
 * dropped. */
static void a_surplus_row_changes_nothing(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t prompt[PROMPT], expected[OUTPUT];
    rig_init(&rig);
    rig.fake_options.steps_ahead = 2;
    rig_start(&rig);
    rig_tokens(&rig, 3, prompt, PROMPT);
    rig_expect(&rig, prompt, PROMPT, expected, OUTPUT);
    struct mr_request *request = mr_fake_request("a", prompt, PROMPT);
    request->max_tokens = 100;
    uint32_t *stop = mr_arena_take_array(request->arena, 1, sizeof *stop);
    assert_non_null(stop);
    *stop = expected[3];
    request->stop_token_ids = stop;
    request->stop_token_count = 1;
    assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
    rig_run(&rig);
    const struct rig_choice *choice = &rig.seen[0].choices[0];
    assert_int_equal(choice->finish, MR_FINISH_STOP_TOKEN);
    assert_int_equal(choice->token_count, 3);
    assert_memory_equal(choice->tokens, expected, 3 * sizeof *expected);
    assert_int_equal(rig.fake->forward_count, 5); /* one row was surplus */
    assert_int_equal(rig.fake->fed_count, 4);
    rig_end(&rig);
}

/* The pool has no room for the KV of the second token, which ends the answer. */
static void an_answer_that_just_fits_the_pool_ends_by_its_last_token(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t prompt[MR_BLOCK_TOKENS - 1], expected[2];
    rig_init(&rig);
    rig.fake_options.steps_ahead = 2;
    rig.options.block_count = 1;
    rig_start(&rig);
    rig_tokens(&rig, 4, prompt, MR_BLOCK_TOKENS - 1);
    rig_expect(&rig, prompt, MR_BLOCK_TOKENS - 1, expected, 2);
    assert_true(expected[0] != expected[1]);
    struct mr_request *request = mr_fake_request("a", prompt, MR_BLOCK_TOKENS - 1);
    request->max_tokens = 100;
    uint32_t *stop = mr_arena_take_array(request->arena, 1, sizeof *stop);
    assert_non_null(stop);
    *stop = expected[1];
    request->stop_token_ids = stop;
    request->stop_token_count = 1;
    assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_STOP_TOKEN);
    assert_int_equal(rig.seen[0].choices[0].token_count, 1);
    rig_end(&rig);
}

static void answers_with_penalties_wait_for_each_token(void **state)
{
    (void)state;
    struct engine_rig rig;
    uint32_t prompt[PROMPT];
    rig_init(&rig);
    rig.fake_options.steps_ahead = 2;
    rig_start(&rig);
    rig_tokens(&rig, 3, prompt, PROMPT);
    struct mr_request *request = mr_fake_request("a", prompt, PROMPT);
    request->max_tokens = OUTPUT;
    request->ignore_eos = true;
    request->sampling.presence_penalty = 0.5f;
    assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choices[0].token_count, OUTPUT);
    assert_int_equal(rig.fake->fed_count, 0);
    rig_end(&rig);
}

static void a_cancel_between_launch_and_collect_keeps_the_order_of_the_output(void **state)
{
    (void)state;
    struct engine_rig rig;
    rig_init(&rig);
    rig.fake_options.steps_ahead = 2;
    rig_start(&rig);
    run_steps(&rig, 3);
    assert_true(mr_engine_cancel(rig.engine, 0, (struct mr_text){"a", 1}));
    rig_run(&rig); /* its sink asserts the order */
    assert_int_equal(rig.seen[0].results, 1);
    assert_int_equal(rig.seen[0].choices[0].finish, MR_FINISH_CANCELLED);
    assert_int_equal(rig.seen[0].choices[0].token_count, rig.seen[0].choices[0].streamed_count);
    rig_end(&rig);
}

static void too_many_steps_ahead_are_refused(void **state)
{
    (void)state;
    struct engine_rig rig;
    struct mr_error err = {0};
    struct mr_sink sink = {0};
    struct mr_engine *engine = NULL;
    rig_init(&rig);
    rig_start(&rig);
    struct mr_engine_options options = rig.options;
    options.model.steps_ahead = MR_STEPS_AHEAD_MAX + 1;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_BAD_CONFIG);
    assert_null(engine);
    options.model.steps_ahead = 2; /* and other threads may use the KV pool */
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_BAD_CONFIG);
    assert_null(engine);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_computes_in_launch_is_collected_at_once),
        cmocka_unit_test(the_next_step_is_launched_before_the_tokens_are_passed_on),
        cmocka_unit_test(two_steps_are_in_flight_before_the_first_token_is_known),
        cmocka_unit_test(a_surplus_row_changes_nothing),
        cmocka_unit_test(an_answer_that_just_fits_the_pool_ends_by_its_last_token),
        cmocka_unit_test(answers_with_penalties_wait_for_each_token),
        cmocka_unit_test(a_step_may_fail_when_it_is_launched),
        cmocka_unit_test(a_step_may_fail_when_it_is_collected),
        cmocka_unit_test(the_end_of_the_engine_collects_the_steps_in_flight),
        cmocka_unit_test(a_cancel_between_launch_and_collect_keeps_the_order_of_the_output),
        cmocka_unit_test(too_many_steps_ahead_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
