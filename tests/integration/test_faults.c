/* The behaviour of a worker when Kafka answers a request with an error: one test per error, with a
 * whole worker and the embedded broker. README.md in this folder has the table. */
#include "codec/records/reply.h"
#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/config/options.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/serve/drain.h"
#include "worker/serve/worker.h"

#include <stdio.h>

#define API_PRODUCE   0
#define API_COMMIT    8
#define API_HEARTBEAT 12

/* Error codes of the Kafka protocol. */
#define NOT_LEADER         6
#define REQUEST_TIMED_OUT  7
#define MESSAGE_TOO_LARGE  10
#define NOT_COORDINATOR    16
#define NOT_ENOUGH         19
#define ILLEGAL_GENERATION 22
#define UNKNOWN_MEMBER     25
#define TOPIC_DENIED       29
#define OUT_OF_ORDER       45

/* Broker 1 leads the request topic and coordinates the group. Broker 2 leads the topics that a
 * worker writes. Broker 3 is spare. */
#define READ_FROM 1
#define WRITE_TO  2
#define SPARE     3

#define PATIENCE_NS ((uint64_t)60000000000)

struct scene {
    struct broker broker;
    struct producing producing;
    struct mr_config *config;
    struct mr_log *log;
    struct mr_worker *worker;
    struct mr_kafka_reader *results;
    uint32_t result_count, whole,
        shrunk; /* results read; whole: results with text; shrunk: results without text */
};

static void add_topics(struct scene *scene)
{
    static const char *const topics[] = {"millrace.requests", "millrace.tokens", "millrace.results",
                                         "millrace.dlq", "millrace.cancel"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        add_topic(&scene->broker, topics[i], 1);
        mr_kafka_mock_lead(scene->broker.mock, topics[i], 0, i == 0 ? READ_FROM : WRITE_TO);
    }
    mr_kafka_mock_coordinate(scene->broker.mock, "millrace", READ_FROM);
}

static void read_config(struct scene *scene)
{
    struct mr_error err = {0};
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    const char *arguments[] = {"millrace",    "serve",
                               "--model",     "tests/golden/models/qwen2",
                               "--brokers",   scene->broker.kafka.brokers,
                               "--http",      "off",
                               "--kv-memory", "16MiB",
                               "--threads",   "1"};
    char *none[] = {NULL};
    if (mr_config_create(&scene->config, sizeof arguments / sizeof *arguments,
                         (char *const *)(uintptr_t)arguments, none, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(mr_log_create(&scene->log, &log, NULL), MR_OK);
}

static void start(struct scene *scene)
{
    struct mr_error err = {0};
    enum mr_exit code;
    struct mr_worker_options options = {
        .config = scene->config, .join_group = true, .log = scene->log};
    if (mr_worker_create(&scene->worker, &options, &code, &err) != MR_OK)
        fail_msg("%s", err.detail);
    uint64_t until_ns = mr_clock_ns() + PATIENCE_NS;
    while (!mr_worker_stats(scene->worker).intake.assigned) {
        assert_true(mr_clock_ns() < until_ns);
        mr_kafka_out_serve(scene->producing.out, 50);
    }
}

static void open_scene(struct scene *scene)
{
    static const char *const topic = "millrace.results";
    struct mr_error err = {0};
    *scene = (struct scene){.broker.kafka = {.group = "millrace", .client_id = "test"}};
    if (mr_kafka_mock_create(&scene->broker.mock, 3, &err) != MR_OK) fail_msg("%s", err.detail);
    scene->broker.kafka.brokers = mr_kafka_mock_bootstrap(scene->broker.mock);
    scene->broker.kafka.embedded = true;
    add_topics(scene);
    read_config(scene);
    open_producing(&scene->producing, &scene->broker);
    struct mr_kafka_reader_options reader = {.kafka = &scene->broker.kafka,
                                             .topics = &topic,
                                             .topic_count = 1,
                                             .from = MR_KAFKA_FROM_BEGINNING,
                                             .timeout_ms = 10000};
    assert_int_equal(mr_kafka_reader_create(&scene->results, &reader, &err), MR_OK);
    start(scene);
}

static enum mr_exit stop(struct scene *scene)
{
    enum mr_exit code = mr_worker_drain(scene->worker, 10000000000u, NULL, NULL, NULL);
    scene->worker = NULL;
    return code;
}

static void close_scene(struct scene *scene)
{
    mr_kafka_reader_destroy(scene->results);
    mr_kafka_out_destroy(scene->producing.out);
    mr_config_destroy(scene->config);
    mr_log_destroy(scene->log);
    mr_kafka_mock_destroy(scene->broker.mock);
}

static void ask(struct scene *scene, const char *id)
{
    char value[200];
    snprintf(value, sizeof value,
             "{\"id\":\"%s\",\"prompt\":\"grain\",\"max_tokens\":4,\"temperature\":0,"
             "\"ignore_eos\":true,\"stream\":false}",
             id);
    produce(&scene->producing, "millrace.requests", 0, id, value);
}

static void take_result(struct scene *scene, const struct mr_kafka_record *record)
{
    struct mr_result result;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    assert_int_equal(mr_result_decode(&result, record->value, MR_ENCODING_JSON, arena, NULL),
                     MR_OK);
    scene->result_count++;
    if (result.error == MR_RECORD_TOO_LARGE)
        scene->shrunk++;
    else if (result.choices[0].token_count == 4)
        scene->whole++;
    mr_arena_destroy(arena);
}

/* Waits for `count` results, and then a moment longer to detect an extra one. */
static void expect_results(struct scene *scene, uint32_t count)
{
    struct mr_kafka_record record;
    uint64_t until_ns = mr_clock_ns() + PATIENCE_NS;
    while (scene->result_count < count && mr_clock_ns() < until_ns)
        if (mr_kafka_reader_take(scene->results, 100, &record)) take_result(scene, &record);
    for (int i = 0; i < 10; i++)
        while (mr_kafka_reader_take(scene->results, 50, &record))
            take_result(scene, &record);
    assert_int_equal(scene->result_count, count);
}

static void wait_failed(struct scene *scene)
{
    uint64_t until_ns = mr_clock_ns() + PATIENCE_NS;
    while (mr_worker_health(scene->worker, NULL) == MR_OK) {
        assert_true(mr_clock_ns() < until_ns);
        mr_kafka_out_serve(scene->producing.out, 50);
    }
}

/* The worker recovers from the error: one answer, the worker keeps running and exits with 0. */
static void expect_passes(struct scene *scene, int16_t api_key, int32_t broker, int code)
{
    mr_kafka_mock_fail_at(scene->broker.mock, broker, api_key, code, 2);
    ask(scene, "a");
    expect_results(scene, 1);
    assert_int_equal(scene->whole, 1);
    assert_int_equal(mr_worker_health(scene->worker, NULL), MR_OK);
    ask(scene, "b");
    expect_results(scene, 2);
    assert_int_equal(stop(scene), MR_EXIT_DONE);
}

/* The offsets of answered requests are committed: another worker answers only the new request. */
static void expect_committed(struct scene *scene)
{
    uint32_t before = scene->result_count;
    start(scene);
    ask(scene, "later");
    expect_results(scene, before + 1);
    assert_int_equal(stop(scene), MR_EXIT_DONE);
}

static void a_result_that_times_out_is_written_again(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    expect_passes(&scene, API_PRODUCE, WRITE_TO, REQUEST_TIMED_OUT);
    close_scene(&scene);
}

static void a_result_waits_for_enough_replicas(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    expect_passes(&scene, API_PRODUCE, WRITE_TO, NOT_ENOUGH);
    close_scene(&scene);
}

static void a_result_that_is_too_large_is_written_without_its_text(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    mr_kafka_mock_fail_at(scene.broker.mock, WRITE_TO, API_PRODUCE, MESSAGE_TOO_LARGE, 1);
    ask(&scene, "a");
    expect_results(&scene, 1);
    assert_int_equal(scene.shrunk, 1);
    assert_int_equal(mr_worker_health(scene.worker, NULL), MR_OK);
    assert_int_equal(stop(&scene), MR_EXIT_DONE);
    expect_committed(&scene);
    close_scene(&scene);
}

/* The error is fatal: the worker fails and exits with 1, and the next worker answers the request.
 */
static void expect_next_worker_answers(int code)
{
    struct scene scene;
    open_scene(&scene);
    mr_kafka_mock_fail_at(scene.broker.mock, WRITE_TO, API_PRODUCE, code, 1);
    ask(&scene, "a");
    wait_failed(&scene);
    assert_int_equal(stop(&scene), MR_EXIT_FAILED);
    expect_results(&scene, 0);
    start(&scene);
    expect_results(&scene, 1);
    assert_int_equal(scene.whole, 1);
    assert_int_equal(stop(&scene), MR_EXIT_DONE);
    close_scene(&scene);
}

static void a_topic_that_is_denied_ends_the_worker_and_loses_nothing(void **state)
{
    (void)state;
    expect_next_worker_answers(TOPIC_DENIED);
}

static void a_producer_out_of_order_ends_the_worker_and_loses_nothing(void **state)
{
    (void)state;
    expect_next_worker_answers(OUT_OF_ORDER);
}

static void a_member_the_group_forgot_joins_again(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    expect_passes(&scene, API_HEARTBEAT, READ_FROM, UNKNOWN_MEMBER);
    close_scene(&scene);
}

static void a_member_of_an_old_generation_joins_again(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    expect_passes(&scene, API_HEARTBEAT, READ_FROM, ILLEGAL_GENERATION);
    close_scene(&scene);
}

static void a_commit_of_a_forgotten_member_is_made_again(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    expect_passes(&scene, API_COMMIT, READ_FROM, UNKNOWN_MEMBER);
    expect_committed(&scene);
    close_scene(&scene);
}

static void a_commit_of_an_old_generation_is_made_again(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    expect_passes(&scene, API_COMMIT, READ_FROM, ILLEGAL_GENERATION);
    expect_committed(&scene);
    close_scene(&scene);
}

static void a_coordinator_that_moved_is_found(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    ask(&scene, "first");
    expect_results(&scene, 1);
    mr_kafka_mock_coordinate(scene.broker.mock, "millrace", SPARE);
    mr_kafka_mock_fail_at(scene.broker.mock, READ_FROM, API_COMMIT, NOT_COORDINATOR, 1);
    mr_kafka_mock_fail_at(scene.broker.mock, READ_FROM, API_HEARTBEAT, NOT_COORDINATOR, 1);
    ask(&scene, "second");
    expect_results(&scene, 2);
    assert_int_equal(mr_worker_health(scene.worker, NULL), MR_OK);
    assert_int_equal(stop(&scene), MR_EXIT_DONE);
    expect_committed(&scene);
    close_scene(&scene);
}

static void a_leader_that_moved_is_found(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    mr_kafka_mock_lead(scene.broker.mock, "millrace.results", 0, SPARE);
    mr_kafka_mock_lead(scene.broker.mock, "millrace.requests", 0, SPARE);
    expect_passes(&scene, API_PRODUCE, SPARE, NOT_LEADER);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_that_times_out_is_written_again),
        cmocka_unit_test(a_result_waits_for_enough_replicas),
        cmocka_unit_test(a_result_that_is_too_large_is_written_without_its_text),
        cmocka_unit_test(a_topic_that_is_denied_ends_the_worker_and_loses_nothing),
        cmocka_unit_test(a_producer_out_of_order_ends_the_worker_and_loses_nothing),
        cmocka_unit_test(a_member_the_group_forgot_joins_again),
        cmocka_unit_test(a_member_of_an_old_generation_joins_again),
        cmocka_unit_test(a_commit_of_a_forgotten_member_is_made_again),
        cmocka_unit_test(a_commit_of_an_old_generation_is_made_again),
        cmocka_unit_test(a_coordinator_that_moved_is_found),
        cmocka_unit_test(a_leader_that_moved_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
