#include "worker/bench/bench_fleet.h"

#include "codec/records/result.h"
#include "tests/unit/worker/producing.h"
#include "worker/bench/bench_results.h"
#include "worker/config/options.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_reader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Answers every request with two token records and a result, the first `slow_count` of them after
 * SLOW_US. */
#define SLOW_US 1200000u
struct answering {
    struct broker broker;
    struct mr_kafka_reader *reader;
    struct producing producing;
    enum mr_finish finish;
    atomic_bool end;
    uint32_t answered, slow_count;
    pthread_t thread;
};

static void publish(struct answering *answering, const char *topic, struct mr_text key,
                    unsigned char *bytes, size_t length)
{
    struct mr_kafka_header type = {"content-type", "application/json", 16};
    struct mr_kafka_record record = {.topic = topic,
                                     .partition = -1,
                                     .key = key,
                                     .value = {(const char *)bytes, length},
                                     .headers = &type,
                                     .header_count = 1};
    mr_kafka_out_produce(answering->producing.out, &record, NULL, NULL);
    free(bytes);
}

static void answer(struct answering *answering, struct mr_text id)
{
    static const uint32_t ids[] = {1, 2};
    unsigned char *bytes = NULL;
    size_t length = 0;
    if (answering->answered < answering->slow_count) usleep(SLOW_US);
    for (uint32_t i = 0; i < 2; i++) {
        struct mr_token_record record = {.id = id,
                                         .attempt = 1,
                                         .index = i,
                                         .resumed_at = -1,
                                         .token_ids = &ids[i],
                                         .token_count = 1,
                                         .text = {"a", 1}};
        mr_token_record_encode(&record, MR_ENCODING_JSON, &bytes, &length, NULL);
        publish(answering, "b.tokens", id, bytes, length);
    }
    struct mr_choice choice = {.finish = answering->finish,
                               .stop_token = MR_TOKEN_NONE,
                               .text = {"aa", 2},
                               .token_ids = ids,
                               .token_count = 2,
                               .completion_tokens = 2};
    struct mr_result result = {.id = id,
                               .attempt = 1,
                               .model = {"m", 1},
                               .worker = {"w", 1},
                               .choices = &choice,
                               .choice_count = 1,
                               .prompt_tokens = 8,
                               .source_topic = {"b.requests", 10}};
    mr_result_encode(&result, MR_ENCODING_JSON, &bytes, &length, NULL);
    publish(answering, "b.results", id, bytes, length);
    mr_kafka_out_flush(answering->producing.out, 10000);
    answering->answered++;
}

static void *answer_all(void *context)
{
    struct answering *answering = context;
    while (!atomic_load(&answering->end)) {
        struct mr_kafka_record record;
        if (!mr_kafka_reader_take(answering->reader, 20, &record)) continue;
        char id[128];
        struct mr_text key = {id, record.key.length};
        memcpy(id, record.key.bytes, record.key.length < sizeof id ? record.key.length : 0);
        answer(answering, key);
    }
    return NULL;
}

static void start(struct answering *answering, enum mr_finish finish)
{
    static const char *const topics[] = {"b.requests"};
    struct mr_error err = {0};
    *answering = (struct answering){.finish = finish};
    open_broker(&answering->broker);
    add_topic(&answering->broker, "b.requests", 2);
    add_topic(&answering->broker, "b.tokens", 2);
    add_topic(&answering->broker, "b.results", 2);
    open_producing(&answering->producing, &answering->broker);
    struct mr_kafka_reader_options options = {.kafka = &answering->broker.kafka,
                                              .topics = topics,
                                              .topic_count = 1,
                                              .from = MR_KAFKA_FROM_BEGINNING,
                                              .timeout_ms = 5000};
    if (mr_kafka_reader_create(&answering->reader, &options, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(pthread_create(&answering->thread, NULL, answer_all, answering), 0);
}

static void finish(struct answering *answering)
{
    atomic_store(&answering->end, true);
    pthread_join(answering->thread, NULL);
    mr_kafka_reader_destroy(answering->reader);
    mr_kafka_out_destroy(answering->producing.out);
    close_broker(&answering->broker);
}

/* Runs the benchmark with --brokers and further flags; the caller frees the table. */
static enum mr_status bench(const struct answering *answering, const char *const *flags,
                            size_t flag_count, char **table, struct mr_error *err)
{
    char brokers[128], *words[24] = {"millrace", "bench", "--prefix=b", brokers};
    char *environment[] = {NULL};
    snprintf(brokers, sizeof brokers, "--brokers=%s", answering->broker.kafka.brokers);
    char copies[16][64];
    for (size_t i = 0; i < flag_count; i++) {
        snprintf(copies[i], sizeof copies[i], "%s", flags[i]);
        words[4 + i] = copies[i];
    }
    struct mr_config *config = NULL;
    if (mr_config_create(&config, (int)(4 + flag_count), words, environment, err) != MR_OK)
        fail_msg("%s", err->detail);
    size_t length = 0;
    FILE *out = open_memstream(table, &length);
    struct mr_bench_fleet_options options = {.config = config, .table = out};
    enum mr_status status = mr_bench_fleet(&options, err);
    fclose(out);
    mr_config_destroy(config);
    return status;
}

static void assert_has(const char *table, const char *line)
{
    if (!strstr(table, line)) fail_msg("no \"%s\" in\n%s", line, table);
}

static void every_request_is_sent_and_its_answer_counted(void **state)
{
    (void)state;
    static const char *const flags[] = {"--requests=20", "--prompt-tokens=8", "--output-tokens=2",
                                        "--warmup=3", "--timeout=60s"};
    struct answering answering;
    struct mr_error err = {0};
    char *table = NULL;
    start(&answering, MR_FINISH_LENGTH);
    enum mr_status status = bench(&answering, flags, 5, &table, &err);
    if (status != MR_OK) fail_msg("%s", err.detail);
    finish(&answering);
    assert_int_equal(answering.answered, 23);
    assert_has(table, "Successful requests:                     20 ");
    assert_has(table, "Failed requests:                         0 ");
    assert_has(table, "Total input tokens:                      160 ");
    assert_has(table, "Total generated tokens:                  40 ");
    free(table);
}

static void concurrency_limits_the_requests_in_flight(void **state)
{
    (void)state;
    static const char *const flags[] = {"--requests=6",  "--prompt-tokens=8", "--output-tokens=2",
                                        "--warmup=0",    "--concurrency=1",   "--rate=1000",
                                        "--timeout=60s", "--msgpack"};
    struct answering answering;
    struct mr_error err = {0};
    char *table = NULL;
    start(&answering, MR_FINISH_EOS);
    enum mr_status status = bench(&answering, flags, 8, &table, &err);
    if (status != MR_OK) fail_msg("%s", err.detail);
    finish(&answering);
    assert_has(table, "Successful requests:                     6 ");
    assert_has(table, "Peak concurrent requests:                1.00 ");
    assert_has(table, "Request rate configured (RPS):           1000.00 ");
    free(table);
}

static void rejected_requests_count_as_failed(void **state)
{
    (void)state;
    static const char *const flags[] = {"--requests=3", "--prompt-tokens=8", "--output-tokens=2",
                                        "--warmup=0", "--timeout=60s"};
    struct answering answering;
    struct mr_error err = {0};
    char *table = NULL;
    start(&answering, MR_FINISH_REJECTED);
    assert_int_equal(bench(&answering, flags, 5, &table, &err), MR_BACKEND);
    finish(&answering);
    assert_has(table, "Failed requests:                         3 ");
    assert_has(table, "First failure:                           finish_reason rejected\n");
    assert_has(err.detail, "no request succeeded: finish_reason rejected");
    free(table);
}

static void without_answers_it_times_out_and_prints_its_figures(void **state)
{
    (void)state;
    static const char *const flags[] = {"--requests=2", "--prompt-tokens=8", "--output-tokens=2",
                                        "--warmup=0", "--timeout=300ms"};
    struct answering answering = {0};
    struct mr_error err = {0};
    char *table = NULL;
    open_broker(&answering.broker);
    add_topic(&answering.broker, "b.requests", 2);
    add_topic(&answering.broker, "b.tokens", 2);
    add_topic(&answering.broker, "b.results", 2);
    assert_int_equal(bench(&answering, flags, 5, &table, &err), MR_TIMEOUT);
    close_broker(&answering.broker);
    assert_has(err.detail, "0 of 2 requests");
    assert_has(table, "Failed requests:                         2 ");
    free(table);
}

static void no_topic_is_created(void **state)
{
    (void)state;
    static const char *const flags[] = {"--requests=2", "--timeout=10s"};
    struct answering answering = {0};
    struct mr_error err = {0};
    struct mr_kafka_admin *admin = NULL;
    char *table = NULL;
    uint32_t count = 1;
    open_broker(&answering.broker);
    assert_true(bench(&answering, flags, 2, &table, &err) != MR_OK);
    assert_has(err.detail, "b.");
    assert_int_equal(mr_kafka_admin_open(&admin, &answering.broker.kafka, &err), MR_OK);
    assert_int_equal(mr_kafka_admin_partitions(admin, "b.requests", 10000, &count, &err), MR_OK);
    assert_int_equal(count, 0);
    mr_kafka_admin_close(admin);
    close_broker(&answering.broker);
    free(table);
}

static void a_sweep_doubles_the_rate_and_reports_each_run(void **state)
{
    (void)state;
    char page[] = "/tmp/mr-page-XXXXXX", flag[64];
    close(mkstemp(page));
    snprintf(flag, sizeof flag, "--report=%s", page);
    /* a limit that every run meets, and then one that no run meets */
    const char *flags[] = {"--requests=1",
                           "--prompt-tokens=8",
                           "--output-tokens=2",
                           "--warmup=0",
                           "--timeout=60s",
                           "--rate=100000",
                           "--objective=e2el-max=1h",
                           "--sweep",
                           flag};
    struct answering answering;
    struct mr_error err = {0};
    char *table = NULL;
    start(&answering, MR_FINISH_LENGTH);
    enum mr_status status = bench(&answering, flags, 9, &table, &err);
    if (status != MR_OK) fail_msg("%s", err.detail);
    assert_has(table, "     1e+05 requests/s: ");
    assert_has(table, "     2e+05 requests/s: ");
    free(table);
    flags[6] = "--objective=ttft-max=1us";
    status = bench(&answering, flags, 9, &table, &err);
    if (status != MR_OK) fail_msg("%s", err.detail);
    finish(&answering);
    /* one run at a rate, and two of requests one after another */
    assert_int_equal(answering.answered, MR_BENCH_SWEEP_MAX + 3);
    assert_has(table,
               "No rate that was tried meets the objectives, nor do requests one after another.");
    free(table);
    FILE *file = fopen(page, "r");
    assert_non_null(file);
    char text[512];
    assert_non_null(fgets(text, sizeof text, file));
    assert_has(text, "<!doctype html>");
    fclose(file);
    unlink(page);
}

static void one_slow_request_does_not_end_a_sweep(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "--requests=1",  "--prompt-tokens=8",       "--warmup=0", "--output-tokens=2",
        "--timeout=60s", "--objective=e2el-max=1s", "--sweep",    "--rate=1000"};
    struct answering answering;
    struct mr_error err = {0};
    char *table = NULL;
    start(&answering, MR_FINISH_LENGTH);
    answering.slow_count = 2; /* one at the first rate, one in the sequential run */
    enum mr_status status = bench(&answering, flags, 8, &table, &err);
    if (status != MR_OK) fail_msg("%s", err.detail);
    finish(&answering);
    assert_null(strstr(table, "No rate that was tried"));
    assert_has(table, "       500 requests/s: ");
    free(table);
}

static void a_sweep_ends_when_all_requests_of_a_rate_fail(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "--requests=2",  "--prompt-tokens=8",       "--warmup=0", "--output-tokens=2",
        "--timeout=60s", "--objective=e2el-max=1h", "--sweep",    "--rate=1000"};
    struct answering answering;
    struct mr_error err = {0};
    char *table = NULL;
    start(&answering, MR_FINISH_REJECTED);
    assert_int_equal(bench(&answering, flags, 8, &table, &err), MR_BACKEND);
    finish(&answering);
    assert_int_equal(answering.answered, 2);
    free(table);
}

static void objectives_that_cannot_be_measured_are_refused(void **state)
{
    (void)state;
    static const char *const no_stream[] = {"--objective=ttft-p99=1s", "--no-stream"};
    static const char *const none[] = {"--sweep"};
    static const char *const malformed[] = {"--objective=ttft-p98=1s"};
    struct answering answering = {.broker.kafka.brokers = "127.0.0.1:1"};
    struct mr_error err = {0};
    char *table = NULL;
    assert_int_equal(bench(&answering, no_stream, 2, &table, &err), MR_BAD_CONFIG);
    assert_has(err.detail, "--no-stream");
    free(table);
    assert_int_equal(bench(&answering, none, 1, &table, &err), MR_BAD_CONFIG);
    assert_has(err.detail, "--objective");
    free(table);
    assert_int_equal(bench(&answering, malformed, 1, &table, &err), MR_BAD_CONFIG);
    assert_has(err.detail, "ttft-p98=1s");
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_sent_and_its_answer_counted),
        cmocka_unit_test(concurrency_limits_the_requests_in_flight),
        cmocka_unit_test(rejected_requests_count_as_failed),
        cmocka_unit_test(without_answers_it_times_out_and_prints_its_figures),
        cmocka_unit_test(no_topic_is_created),
        cmocka_unit_test(a_sweep_doubles_the_rate_and_reports_each_run),
        cmocka_unit_test(one_slow_request_does_not_end_a_sweep),
        cmocka_unit_test(a_sweep_ends_when_all_requests_of_a_rate_fail),
        cmocka_unit_test(objectives_that_cannot_be_measured_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
