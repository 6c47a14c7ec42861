#include "tests/unit/worker/lag/lag_fixture.h"

static struct mr_lag_rates *create(size_t topics)
{
    struct mr_lag_rates *rates = NULL;
    assert_int_equal(mr_lag_rates_create(&rates, topics, NULL), MR_OK);
    return rates;
}

static void without_results_everything_is_unknown(void **state)
{
    (void)state;
    double requests;
    struct mr_lag_tokens tokens;
    struct mr_lag_rates *rates = create(1);
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_false(mr_lag_rates_tokens(rates, 0, &tokens));
    assert_true(isnan(mr_lag_rates_speed(rates, 1)));
    assert_true(isnan(mr_lag_rates_top_speed(rates, &requests)));
    mr_lag_rates_destroy(rates);
}

static void the_speed_is_tokens_per_busy_time(void **state)
{
    (void)state;
    struct mr_lag_rates *rates = create(1);
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 1,
                                     .rounds = 4,
                                     .run_ms = 500,
                                     .ago_ms = 60000}); /* 100 tokens in half a second */
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_float_equal(mr_lag_rates_speed(rates, 1), 200, 1e-6);
    mr_lag_rates_destroy(rates);
}

static void the_speed_depends_on_the_requests_at_a_time(void **state)
{
    (void)state;
    double requests;
    struct mr_lag_rates *rates = create(1);
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 1,
                                     .rounds = 4,
                                     .run_ms = 500,
                                     .ago_ms = 60000}); /* 200 tokens/s */
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 8,
                                     .rounds = 4,
                                     .run_ms = 1000,
                                     .ago_ms = 0}); /* 800 tokens/s */
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_float_equal(mr_lag_rates_speed(rates, 1), 200, 1e-6);
    assert_float_equal(mr_lag_rates_speed(rates, 8), 800, 1e-6);
    assert_float_equal(mr_lag_rates_speed(rates, 4.5), 500, 1e-6); /* half way */
    assert_float_equal(mr_lag_rates_speed(rates, 100), 800, 1e-6); /* no more than was seen */
    assert_float_equal(mr_lag_rates_top_speed(rates, &requests), 800, 1e-6);
    assert_float_equal(requests, 8, 1e-6);
    mr_lag_rates_destroy(rates);
}

static void below_what_was_seen_the_speed_is_its_share(void **state)
{
    (void)state;
    struct mr_lag_rates *rates = create(1);
    add_results(
        rates,
        (struct load){
            .worker = 1, .topic = 0, .at_a_time = 8, .rounds = 4, .run_ms = 1000, .ago_ms = 0});
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_float_equal(mr_lag_rates_speed(rates, 1), 100, 1e-6);
    mr_lag_rates_destroy(rates);
}

static void each_worker_has_its_own_time(void **state)
{
    (void)state;
    struct mr_lag_rates *rates = create(1);
    add_results(
        rates,
        (struct load){
            .worker = 1, .topic = 0, .at_a_time = 1, .rounds = 4, .run_ms = 500, .ago_ms = 0});
    add_results(rates,
                (struct load){.worker = 2,
                              .topic = 0,
                              .at_a_time = 1,
                              .rounds = 4,
                              .run_ms = 500,
                              .ago_ms = 0}); /* at the same time: not two requests at a time */
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_float_equal(mr_lag_rates_speed(rates, 1), 200, 1e-6);
    assert_float_equal(mr_lag_rates_speed(rates, 2), 200, 1e-6);
    mr_lag_rates_destroy(rates);
}

static void a_topic_has_its_own_mean_and_else_that_of_all(void **state)
{
    (void)state;
    struct mr_lag_tokens tokens;
    struct mr_lag_rates *rates = create(2);
    add_results(
        rates,
        (struct load){
            .worker = 1, .topic = 1, .at_a_time = 1, .rounds = 4, .run_ms = 500, .ago_ms = 0});
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_true(mr_lag_rates_tokens(rates, 0, &tokens));
    assert_float_equal(tokens.prompt, 10, 1e-9);
    assert_float_equal(tokens.answer, 90, 1e-9);
    const struct mr_lag_sample sample = {
        .topic = 0, .end_ms = NOW_MS, .run_ms = 10, .prompt_tokens = 7};
    mr_lag_rates_add(rates, &sample);
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_true(mr_lag_rates_tokens(rates, 0, &tokens));
    assert_float_equal(tokens.prompt, 7, 1e-9);
    assert_float_equal(tokens.answer, 0, 1e-9);
    mr_lag_rates_destroy(rates);
}

static void times_with_missing_results_teach_nothing(void **state)
{
    (void)state;
    struct mr_lag_rates *rates = create(1);
    add_results(
        rates,
        (struct load){
            .worker = 1, .topic = 0, .at_a_time = 1, .rounds = 4, .run_ms = 500, .ago_ms = 0});
    /* one of two results of each moment was not read */
    mr_lag_rates_skip(rates, NOW_MS);
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_true(isnan(mr_lag_rates_speed(rates, 1)));
    mr_lag_rates_destroy(rates);
}

static void the_end_teaches_nothing_while_requests_run(void **state)
{
    (void)state;
    struct mr_lag_rates *rates = create(1);
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 2,
                                     .rounds = 10,
                                     .run_ms = 500,
                                     .ago_ms = 0}); /* until now */
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 1,
                                     .rounds = 1,
                                     .run_ms = 4000,
                                     .ago_ms = 1000}); /* a long request at the same time */
    mr_lag_rates_learn(rates, true, NOW_MS);
    /* only the time until 4 s ago counts: there three ran at a time, 2 * 200 + 25 tokens/s */
    assert_float_equal(mr_lag_rates_speed(rates, 3), 425, 1e-6);
    assert_float_equal(mr_lag_rates_speed(rates, 2), 425.0 * 2 / 3, 1e-6);
    mr_lag_rates_learn(rates, false, NOW_MS);
    /* and then one second with two */
    assert_float_equal(mr_lag_rates_speed(rates, 3), 420, 1e-6);
    assert_float_equal(mr_lag_rates_speed(rates, 2.8), 420, 1e-6);
    mr_lag_rates_destroy(rates);
}

static void a_level_keeps_its_speed_when_its_samples_are_gone(void **state)
{
    (void)state;
    struct mr_lag_rates *rates = create(1);
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 16,
                                     .rounds = 4,
                                     .run_ms = 1000,
                                     .ago_ms = 100000});
    mr_lag_rates_learn(rates, false, NOW_MS);
    add_results(rates, (struct load){.worker = 1,
                                     .topic = 0,
                                     .at_a_time = 1,
                                     .rounds = (unsigned)MR_LAG_SAMPLES_MAX,
                                     .run_ms = 10,
                                     .ago_ms = 0});
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_float_equal(mr_lag_rates_speed(rates, 1), 10000, 1e-3);
    assert_float_equal(mr_lag_rates_speed(rates, 16), 10000, 1e-3); /* never below a lower level */
    mr_lag_rates_destroy(rates);
}

static void results_without_tokens_or_time_do_no_harm(void **state)
{
    (void)state;
    struct mr_lag_tokens tokens;
    struct mr_lag_rates *rates = create(1);
    struct mr_lag_sample sample = {.worker = 1, .end_ms = NOW_MS, .run_ms = 0};
    mr_lag_rates_add(rates, &sample); /* rejected */
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_false(mr_lag_rates_tokens(rates, 0, &tokens));
    sample.prompt_tokens = 5; /* in less than a millisecond */
    for (int i = 0; i < 1000; i++)
        mr_lag_rates_add(rates, &sample);
    sample.run_ms = -5;
    mr_lag_rates_add(rates, &sample);
    mr_lag_rates_learn(rates, false, NOW_MS);
    assert_true(mr_lag_rates_tokens(rates, 0, &tokens));
    assert_true(isnan(mr_lag_rates_speed(rates, 1)));
    mr_lag_rates_destroy(rates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_results_everything_is_unknown),
        cmocka_unit_test(the_speed_is_tokens_per_busy_time),
        cmocka_unit_test(the_speed_depends_on_the_requests_at_a_time),
        cmocka_unit_test(below_what_was_seen_the_speed_is_its_share),
        cmocka_unit_test(each_worker_has_its_own_time),
        cmocka_unit_test(a_topic_has_its_own_mean_and_else_that_of_all),
        cmocka_unit_test(times_with_missing_results_teach_nothing),
        cmocka_unit_test(the_end_teaches_nothing_while_requests_run),
        cmocka_unit_test(a_level_keeps_its_speed_when_its_samples_are_gone),
        cmocka_unit_test(results_without_tokens_or_time_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
