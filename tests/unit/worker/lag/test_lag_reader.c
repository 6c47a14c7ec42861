#include "worker/lag/lag_reader.h"

#include "tests/unit/worker/kafka/consuming.h"
#include "tests/unit/worker/lag/lag_fixture.h"
#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/config/options.h"
#include "worker/kafka/header_names.h"

/* The embedded broker with topics a (tenant red, wait limit 1 h) and b, and the results topic. */
struct reading {
    struct bus bus;
    struct mr_config *config;
    struct mr_lag_reader *reader;
};

static int open_reading(void **state)
{
    struct mr_error err = {0};
    struct reading *reading = *state = calloc(1, sizeof *reading);
    char *none[] = {NULL};
    assert_non_null(reading);
    open_broker(&reading->bus.broker);
    open_producing(&reading->bus.producing, &reading->bus.broker);
    add_topic(&reading->bus.broker, "a", 2);
    add_topic(&reading->bus.broker, "b", 1);
    add_topic(&reading->bus.broker, "millrace.results", 2);
    const char *arguments[] = {
        "millrace",         "lag", "--brokers",        reading->bus.broker.kafka.brokers,
        "--group",          "g",   "--requests-topic", "a,tenant=red,queue=1h",
        "--requests-topic", "b"};
    if (mr_config_create(&reading->config, 10, (char *const *)(uintptr_t)arguments, none, &err) !=
            MR_OK ||
        mr_lag_reader_open(&reading->reader, reading->config, 20000, &err) != MR_OK)
        fail_msg("%s", err.detail);
    return 0;
}

static int close_reading(void **state)
{
    struct reading *reading = *state;
    mr_lag_reader_close(reading->reader);
    mr_config_destroy(reading->config);
    mr_kafka_out_destroy(reading->bus.producing.out);
    close_broker(&reading->bus.broker);
    free(reading);
    return 0;
}

static const struct mr_lag_forecast *refresh(struct reading *reading)
{
    struct mr_error err = {0};
    const struct mr_lag_forecast *forecast = NULL;
    if (mr_lag_reader_refresh(reading->reader, mr_clock_now(), 20000, 20000, &forecast, &err) !=
        MR_OK)
        fail_msg("%s", err.detail);
    return forecast;
}

static void send_request(struct reading *reading, const char *topic, const char *value)
{
    produce(&reading->bus.producing, topic, 0, "key", value);
}

/* A result of one request that ran for a second alone: 20 prompt tokens, of these 5 cached, and 30
 * generated ones. */
static void send_result(struct reading *reading, const char *group)
{
    static const char value[] =
        "{\"id\":\"x\",\"attempt\":1,\"model\":\"m\",\"worker\":\"w\",\"finish_reason\":\"length\","
        "\"text\":\"\",\"token_ids\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":30,"
        "\"total_tokens\":50,\"cached_tokens\":5,\"cached_tokens_redis\":0},"
        "\"timings_ms\":{\"queue\":500,\"prefill\":1,\"first_token\":501,\"total\":1500,"
        "\"itl_mean\":1,\"itl_max\":1},\"prefill_chunks\":1,\"preemptions\":0,"
        "\"recomputed_tokens\":0,\"source\":{\"topic\":\"a\",\"partition\":0,\"offset\":0}}";
    const struct mr_kafka_header headers[] = {{MR_HEADER_CONTENT_TYPE, "application/json", 16},
                                              {MR_HEADER_GROUP, group, strlen(group)}};
    const struct mr_kafka_record record = {.topic = "millrace.results",
                                           .partition = 0,
                                           .key = text_of("x"),
                                           .value = text_of(value),
                                           .headers = headers,
                                           .header_count = 2};
    assert_int_equal(mr_kafka_out_produce(reading->bus.producing.out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(reading->bus.producing.out, 10000), MR_OK);
}

static void requests_wait_until_they_are_committed(void **state)
{
    struct reading *reading = *state;
    static const struct mr_kafka_consumer_topic consumed[] = {{"a", 1}, {"b", 1}};
    struct consuming consuming;
    assert_int_equal(refresh(reading)->total.waiting, 0);
    assert_int_equal(refresh(reading)->workers_wanted, 0);
    send_request(reading, "a", "{\"prompt\":\"one\"}");
    send_request(reading, "a", "{\"prompt\":\"two\",\"timeout_ms\":1}");
    send_request(reading, "a", "no request");
    produce(&reading->bus.producing, "a", 1, "key", NULL);
    send_request(reading, "b", "{\"prompt\":\"three\",\"timeout_ms\":600000}");
    mr_clock_sleep_ms(5);
    const struct mr_lag_forecast *forecast = refresh(reading);
    assert_int_equal(forecast->topics[0].waiting, 2);
    assert_int_equal(forecast->topics[0].expired, 1);
    assert_int_equal(forecast->topics[1].waiting, 1);
    assert_int_equal(forecast->total.unread, 0);
    assert_int_equal(forecast->workers_wanted, 1);
    /* the wait limit of topic a, 1 h, is later than the deadline of the request in b */
    assert_true(forecast->total.deadline_ms > 0);
    assert_int_equal(forecast->total.deadline_ms, forecast->topics[1].deadline_ms);
    assert_true(forecast->topics[0].deadline_ms > forecast->topics[1].deadline_ms);
    open_consuming(&consuming, &reading->bus.broker, consumed, 2, false);
    const struct mr_kafka_commit commits[] = {
        {.topic_index = 0, .partition = 0, .offset = 3, .metadata = ""},
        {.topic_index = 1, .partition = 0, .offset = 1, .metadata = ""}};
    assert_int_equal(commit(&consuming, commits, 2), MR_OK);
    forecast = refresh(reading);
    assert_int_equal(forecast->total.waiting, 0);
    assert_int_equal(forecast->total.expired, 0);
    assert_int_equal(forecast->workers_wanted, 0);
    close_consuming(&consuming);
}

static void results_of_the_group_say_how_fast_it_is(void **state)
{
    struct reading *reading = *state;
    send_request(reading, "a", "{\"prompt\":\"one\",\"max_tokens\":1000}");
    send_request(reading, "a", "{\"prompt\":\"two\",\"max_tokens\":10}");
    send_result(reading, "others");
    assert_true(isnan(refresh(reading)->total.tokens));
    send_result(reading, "g");
    /* requests wait, so the time of the longest run until now teaches nothing */
    mr_clock_sleep_ms(1100);
    const struct mr_lag_forecast *forecast = refresh(reading);
    assert_float_equal(forecast->total.tokens, 15 + 30 + 15 + 10, 1e-6);
    assert_float_equal(forecast->speed, 45, 1e-6);
    assert_float_equal(forecast->total.worker_seconds, 70.0 / 45, 1e-6);
    send_result(reading, "g");
    refresh(reading);
}

static void a_missing_topic_is_an_error_and_missing_results_are_not(void **state)
{
    struct reading *reading = *state;
    struct mr_error err = {0};
    const struct mr_lag_forecast *forecast = NULL;
    reading->config->results_topic = "none";
    mr_lag_reader_close(reading->reader);
    assert_int_equal(mr_lag_reader_open(&reading->reader, reading->config, 20000, &err), MR_OK);
    assert_int_equal(refresh(reading)->total.waiting, 0);
    mr_lag_reader_close(reading->reader);
    reading->config->request_topics[1].name = "none";
    assert_int_equal(mr_lag_reader_open(&reading->reader, reading->config, 20000, &err), MR_OK);
    assert_int_equal(
        mr_lag_reader_refresh(reading->reader, mr_clock_now(), 20000, 1000, &forecast, &err),
        MR_BAD_CONFIG);
    assert_null(forecast);
    assert_string_equal(err.detail, "topic none does not exist");
}

#define READING_TEST(name) cmocka_unit_test_setup_teardown(name, open_reading, close_reading)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READING_TEST(requests_wait_until_they_are_committed),
        READING_TEST(results_of_the_group_say_how_fast_it_is),
        READING_TEST(a_missing_topic_is_an_error_and_missing_results_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
