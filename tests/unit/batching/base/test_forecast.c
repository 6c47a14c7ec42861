#include "batching/base/forecast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Fits the model to 10 ms a step, 1 ms a row and 0.1 ms a prompt token, from varied steps. */
static void learn(struct mr_cost_model *model, uint32_t steps)
{
    mr_cost_model_init(model);
    for (uint32_t i = 0; i < steps; i++) {
        struct mr_step_work work = {0};
        uint32_t rows = i % 7, chunk = i * 37 % 300;
        for (uint32_t k = 0; k < rows; k++)
            mr_step_work_add(&work, 1, i * 13 % 500, true);
        if (chunk > 0) mr_step_work_add(&work, chunk, i * 29 % 400, false);
        mr_cost_model_observe(model, &work, 10.0 + rows + 0.1 * chunk);
    }
}

static void nothing_is_predicted_before_enough_steps(void **state)
{
    (void)state;
    struct mr_cost_model model;
    struct mr_forecast forecast = {.pending_tokens = 100, .output_tokens = 10};
    learn(&model, MR_FORECAST_STEPS_MIN - 1);
    assert_true(mr_forecast_ms(&model, &forecast) == 0);
    learn(&model, MR_FORECAST_STEPS_MIN);
    assert_true(mr_forecast_ms(&model, &forecast) > 0);
}

/* Decodes alone do not show that the first prompt took too long: without this, no request with a
 * deadline would ever run again. */
static void a_first_prompt_that_took_too_long_predicts_nothing(void **state)
{
    (void)state;
    struct mr_cost_model model;
    struct mr_forecast forecast = {.pending_tokens = 300, .output_tokens = 10};
    const struct mr_step_work prompt = {.chunk = 300, .history = 45000};
    const double prompt_ms = 10 + 300 * 0.1;
    mr_cost_model_init(&model);
    mr_cost_model_observe(&model, &prompt, 20 * prompt_ms);
    for (uint32_t i = 0; i < 200; i++) {
        const struct mr_step_work decode = {.rows = 1, .history = 300 + i};
        mr_cost_model_observe(&model, &decode, 11);
    }
    assert_true(mr_forecast_ms(&model, &forecast) == 0);
    for (uint32_t i = 1; i < MR_FORECAST_PREFILLS_MIN; i++)
        mr_cost_model_observe(&model, &prompt, prompt_ms);
    double ms = mr_forecast_ms(&model, &forecast), expected = prompt_ms + 9 * 11;
    assert_true(ms > 0.9 * expected && ms < 1.1 * expected);
}

static void prefill_and_answer_add_up(void **state)
{
    (void)state;
    struct mr_cost_model model;
    struct mr_forecast forecast = {
        .pending_tokens = 400, .chunk_tokens = 100, .output_tokens = 21, .computed_tokens = 30};
    learn(&model, 500);
    double ms = mr_forecast_ms(&model, &forecast);
    double expected = 4 * 10 + 400 * 0.1 + 20 * 11;
    assert_true(ms > 0.9 * expected && ms < 1.1 * expected);
}

static void other_sequences_cost_time_in_every_step(void **state)
{
    (void)state;
    struct mr_cost_model model;
    struct mr_forecast alone = {.pending_tokens = 100, .output_tokens = 11}, among = alone;
    learn(&model, 500);
    among.beside.rows = 5;
    double more = mr_forecast_ms(&model, &among) - mr_forecast_ms(&model, &alone);
    assert_true(more > 0.9 * 5 * 11 && more < 1.1 * 5 * 11); /* 11 steps, 5 rows */
}

static void a_cached_prompt_with_one_output_token_takes_no_time(void **state)
{
    (void)state;
    struct mr_cost_model model;
    struct mr_forecast forecast = {.computed_tokens = 100, .output_tokens = 1};
    learn(&model, 500);
    assert_true(mr_forecast_ms(&model, &forecast) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_predicted_before_enough_steps),
        cmocka_unit_test(a_first_prompt_that_took_too_long_predicts_nothing),
        cmocka_unit_test(prefill_and_answer_add_up),
        cmocka_unit_test(other_sequences_cost_time_in_every_step),
        cmocka_unit_test(a_cached_prompt_with_one_output_token_takes_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
