#include "tests/unit/worker/lag/lag_fixture.h"

#include <stdlib.h>

#define TOPICS 2

/* Two topics of 4 partitions each; the test fills partition 0. */
struct fleet {
    struct mr_lag_partition partitions[TOPICS * 4];
    struct mr_lag_rates *rates;
    uint64_t queue_limits_ns[TOPICS];
    struct mr_lag_figures figures[TOPICS];
    struct mr_lag_forecast forecast;
    struct mr_lag_question question;
};

static int open_fleet(void **state)
{
    struct fleet *fleet = *state = calloc(1, sizeof *fleet);
    assert_non_null(fleet);
    assert_int_equal(mr_lag_rates_create(&fleet->rates, TOPICS, NULL), MR_OK);
    for (size_t i = 0; i < TOPICS * 4; i++)
        mr_lag_partition_init(&fleet->partitions[i], i / 4, (int32_t)(i % 4), 1000);
    fleet->forecast.topics = fleet->figures;
    fleet->question = (struct mr_lag_question){.partitions = fleet->partitions,
                                               .partition_count = TOPICS * 4,
                                               .queue_limits_ns = fleet->queue_limits_ns,
                                               .topic_count = TOPICS,
                                               .rates = fleet->rates,
                                               .workers_known = true,
                                               .now_ms = NOW_MS,
                                               .target_s = 60,
                                               .start_s = 30};
    return 0;
}

static int close_fleet(void **state)
{
    struct fleet *fleet = *state;
    for (size_t i = 0; i < TOPICS * 4; i++)
        mr_lag_partition_free(&fleet->partitions[i]);
    mr_lag_rates_destroy(fleet->rates);
    free(fleet);
    return 0;
}

static const struct mr_lag_forecast *make(struct fleet *fleet)
{
    assert_int_equal(mr_lag_forecast_make(&fleet->forecast, &fleet->question, NULL), MR_OK);
    return &fleet->forecast;
}

/* One worker that runs one request at a time: 100 tokens in run_ms. */
static void learn(struct fleet *fleet, double run_ms)
{
    add_results(
        fleet->rates,
        (struct load){
            .worker = 1, .topic = 0, .at_a_time = 1, .rounds = 4, .run_ms = run_ms, .ago_ms = 0});
    mr_lag_rates_learn(fleet->rates, false, NOW_MS);
}

static void add_many(struct fleet *fleet, size_t topic, int64_t count, int64_t deadline_ms)
{
    struct mr_lag_partition *partition = &fleet->partitions[4 * topic];
    update(partition, 0, 0, count, "");
    for (int64_t o = 0; o < count; o++)
        assert_true(add(partition, o, count - o, deadline_ms));
}

static void nothing_waits_and_nobody_is_wanted(void **state)
{
    const struct mr_lag_forecast *forecast = make(*state);
    assert_int_equal(forecast->total.waiting, 0);
    assert_int_equal(forecast->workers_wanted, 0);
    assert_float_equal(forecast->total.tokens, 0, 0); /* known without history */
    assert_float_equal(forecast->total.seconds, 0, 0);
    assert_float_equal(forecast->total.late, 0, 0);
}

static void without_history_one_worker_is_wanted_and_times_are_unknown(void **state)
{
    struct fleet *fleet = *state;
    add_many(fleet, 0, 5, 100000);
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_int_equal(forecast->total.waiting, 5);
    assert_int_equal(forecast->workers_wanted, 1);
    assert_true(isnan(forecast->total.tokens));
    assert_true(isnan(forecast->total.seconds));
    assert_true(isnan(forecast->total.late));
}

static void without_history_no_present_worker_is_stopped(void **state)
{
    struct fleet *fleet = *state;
    add_many(fleet, 0, 5, 0);
    fleet->question.workers = 3;
    assert_int_equal(make(fleet)->workers_wanted, 3);
}

static void the_work_is_tokens_over_speed(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    add_many(fleet, 0, 60, 0);
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_float_equal(forecast->total.tokens, 6000, 1e-6);
    assert_float_equal(forecast->total.worker_seconds, 30, 1e-6);
    assert_float_equal(forecast->total.seconds, 30, 1e-6);
    assert_int_equal(forecast->workers_wanted, 1);
    fleet->question.workers = 3;
    forecast = make(fleet);
    assert_float_equal(forecast->total.worker_seconds, 30, 1e-6);
    assert_float_equal(forecast->total.seconds, 10, 1e-6);
}

static void the_target_decides_the_number_of_workers(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    add_many(fleet, 0, 300, 0); /* 150 s of one worker */
    assert_int_equal(make(fleet)->workers_wanted, 3);
    fleet->question.target_s = 150;
    assert_int_equal(make(fleet)->workers_wanted, 1);
    fleet->question.target_s = 1;
    assert_int_equal(make(fleet)->workers_wanted, 4); /* more get no partition */
}

static void a_deadline_needs_workers_that_start_before_it(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    /* 20 s of work, due in 40 s; a new worker needs 30 s to start: 10 s are left */
    add_many(fleet, 0, 40, 40000);
    assert_int_equal(make(fleet)->workers_wanted, 2);
    fleet->question.start_s = 0;
    assert_int_equal(make(fleet)->workers_wanted, 1);
    /* no new worker can help */
    fleet->question.start_s = 40;
    assert_int_equal(make(fleet)->workers_wanted, 1);
}

static void late_requests_are_counted_in_order_of_arrival(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    fleet->question.workers = 1;
    add_many(fleet, 0, 40, 10250); /* 20 of 40 are done in 10 s */
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_float_equal(forecast->total.late, 20, 0);
    assert_float_equal(forecast->topics[0].late, 20, 0);
    assert_int_equal(forecast->total.deadline_ms, NOW_MS + 10250);
    fleet->question.workers = 2;
    assert_float_equal(make(fleet)->total.late, 0, 0);
    /* without a worker its start comes first */
    fleet->question.workers = 0;
    assert_float_equal(make(fleet)->total.late, 40, 0);
}

static void requests_past_their_deadline_wake_nobody(void **state)
{
    struct fleet *fleet = *state;
    add_many(fleet, 0, 7, -1);
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_int_equal(forecast->total.waiting, 0);
    assert_int_equal(forecast->total.expired, 7);
    assert_int_equal(forecast->workers_wanted, 0);
    assert_int_equal(forecast->total.deadline_ms, 0);
}

static void the_wait_limit_of_a_topic_is_a_deadline_until_the_start(void **state)
{
    struct fleet *fleet = *state;
    struct mr_lag_partition *partition = &fleet->partitions[0];
    fleet->queue_limits_ns[0] = UINT64_C(10000000000);
    update(partition, 0, 0, 3, "S");
    assert_true(add(partition, 0, 20000, 0)); /* runs */
    assert_true(add(partition, 1, 20000, 0)); /* has waited for 20 s */
    assert_true(add(partition, 2, 4000, 0));
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_int_equal(forecast->topics[0].waiting, 2);
    assert_int_equal(forecast->topics[0].started, 1);
    assert_int_equal(forecast->topics[0].expired, 1);
    assert_int_equal(forecast->topics[0].deadline_ms, NOW_MS + 6000);
}

static void a_started_request_has_half_its_work_left_and_needs_no_new_worker(void **state)
{
    struct fleet *fleet = *state;
    struct mr_lag_partition *partition = &fleet->partitions[0];
    learn(fleet, 500);
    update(partition, 0, 0, 100, "SSSSSSSSSS");
    for (int64_t o = 0; o < 100; o++)
        assert_true(add(partition, o, 100, o < 10 ? 31000 : 0));
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_int_equal(forecast->total.started, 10);
    assert_float_equal(forecast->total.tokens, 9500, 1e-6);
    /* a second after a new worker has started their deadlines pass; they are not its work */
    assert_int_equal(forecast->workers_wanted, 1);
    update(partition, 0, 0, 100, "");
    assert_int_equal(make(fleet)->workers_wanted, 4);
}

static void a_small_topic_is_done_before_a_large_one(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    add_many(fleet, 0, 60, 0); /* 30 s */
    add_many(fleet, 1, 10, 0); /* 5 s; both share until 10 s */
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_float_equal(forecast->topics[0].seconds, 35, 1e-6);
    assert_float_equal(forecast->topics[1].seconds, 10, 1e-6);
    assert_float_equal(forecast->total.seconds, 35, 1e-6);
    assert_int_equal(forecast->topics[1].oldest_ms, NOW_MS - 10);
}

static void the_record_bounds_the_answer(void **state)
{
    struct fleet *fleet = *state;
    struct mr_lag_partition *partition = &fleet->partitions[0];
    learn(fleet, 500);
    update(partition, 0, 0, 3, "");
    struct mr_lag_request request = {.timestamp_ms = NOW_MS, .answer_tokens_max = 20};
    assert_true(mr_lag_partition_add(partition, &request)); /* 10 + 20 */
    request.offset++;
    request.answer_tokens_max = 1000;
    assert_true(mr_lag_partition_add(partition, &request)); /* 10 + 90 */
    request.offset++;
    request.rejected = true;
    assert_true(mr_lag_partition_add(partition, &request)); /* waits for its answer: an error */
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_float_equal(forecast->total.tokens, 130, 1e-6);
    assert_int_equal(forecast->total.waiting, 3);
}

static void unread_requests_have_the_mean_work(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    update(&fleet->partitions[5], 0, 0, 500, "S?FF");
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_int_equal(forecast->topics[1].waiting, 498);
    assert_int_equal(forecast->topics[1].unread, 498);
    assert_float_equal(forecast->topics[1].tokens, 49800, 1e-6);
    assert_int_equal(forecast->workers_wanted, 4);
}

static void an_unknown_number_of_workers_is_taken_as_one(void **state)
{
    struct fleet *fleet = *state;
    learn(fleet, 500);
    add_many(fleet, 0, 10, 0);
    fleet->question.workers_known = false;
    const struct mr_lag_forecast *forecast = make(fleet);
    assert_false(forecast->workers_known);
    assert_float_equal(forecast->total.seconds, 5, 1e-6);
}

#define FLEET_TEST(name) cmocka_unit_test_setup_teardown(name, open_fleet, close_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(nothing_waits_and_nobody_is_wanted),
        FLEET_TEST(without_history_one_worker_is_wanted_and_times_are_unknown),
        FLEET_TEST(without_history_no_present_worker_is_stopped),
        FLEET_TEST(the_work_is_tokens_over_speed),
        FLEET_TEST(the_target_decides_the_number_of_workers),
        FLEET_TEST(a_deadline_needs_workers_that_start_before_it),
        FLEET_TEST(late_requests_are_counted_in_order_of_arrival),
        FLEET_TEST(requests_past_their_deadline_wake_nobody),
        FLEET_TEST(the_wait_limit_of_a_topic_is_a_deadline_until_the_start),
        FLEET_TEST(a_started_request_has_half_its_work_left_and_needs_no_new_worker),
        FLEET_TEST(a_small_topic_is_done_before_a_large_one),
        FLEET_TEST(the_record_bounds_the_answer),
        FLEET_TEST(unread_requests_have_the_mean_work),
        FLEET_TEST(an_unknown_number_of_workers_is_taken_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
