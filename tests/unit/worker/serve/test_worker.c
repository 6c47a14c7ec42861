#include "worker/serve/worker.h"

#include "tests/unit/worker/producing.h"
#include "tests/unit/worker/serving.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/serve/drain.h"
#include "worker/serve/parts_state.h"
#include "worker/top/scrape.h"

static enum mr_status start(struct serving *serving, struct mr_worker **worker,
                            enum mr_exit *exit_code, struct mr_error *err)
{
    const struct mr_worker_options options = {
        .config = serving->config, .join_group = false, .log = serving->log};
    return mr_worker_create(worker, &options, exit_code, err);
}

static void assert_no_start(const char *model, const char *const *more, enum mr_exit want,
                            const char *why)
{
    struct serving serving;
    struct mr_worker *worker = NULL;
    enum mr_exit exit_code = MR_EXIT_DONE;
    struct mr_error err = {0};
    open_serving(&serving, model, more);
    assert_int_not_equal(start(&serving, &worker, &exit_code, &err), MR_OK);
    assert_null(worker);
    assert_int_equal(exit_code, want);
    if (!strstr(err.detail, why)) fail_msg("%s, not: %s", err.detail, why);
    close_serving(&serving);
}

static void a_model_that_is_missing_has_its_exit_code(void **state)
{
    (void)state;
    assert_no_start("none.gguf", NULL, MR_EXIT_MODEL, "none.gguf");
}

static void a_bad_configuration_has_its_exit_code(void **state)
{
    (void)state;
    static const char *const delivery[] = {"--delivery", "exactly-once", NULL};
    static const char *const property[] = {"--kafka", "no.such.property=1", NULL};
    assert_no_start("tests/golden/models/grouped_tied", delivery, MR_EXIT_USAGE, "exactly-once");
    assert_no_start("none.gguf", property, MR_EXIT_USAGE, "no.such.property");
}

/* Clients that fetch /metrics in a loop get the same page for 100 ms. */
static void assert_metrics_are_made_every_100_ms(struct mr_worker *worker)
{
    char address[64], *page;
    snprintf(address, sizeof address, "127.0.0.1:%u", mr_http_port(worker->http));
    uint64_t made_ns = 0;
    unsigned made = 0;
    const uint64_t begun_ns = mr_clock_ns();
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(mr_scrape_page(address, "/metrics", 5000, &page, NULL), MR_OK);
        assert_true(mr_scrape_sum(page, "millrace_kv_blocks", "") > 0);
        free(page);
        made += worker->metrics_ns != made_ns;
        made_ns = worker->metrics_ns;
    }
    assert_true(made <= 1 + (mr_clock_ns() - begun_ns) / 100000000);
    mr_clock_sleep_ms(110);
    assert_int_equal(mr_scrape_page(address, "/metrics", 5000, &page, NULL), MR_OK);
    free(page);
    assert_true(worker->metrics_ns != made_ns);
}

/* Asserts how far one streamed answer of 4 tokens advances the counters. The commit and the
 * acknowledgements of the records may take a moment longer than the result. */
static void assert_counters_of_one_answer(struct mr_worker *worker)
{
    static const struct {
        const char *name;
        double least, most;
    } wanted[] = {{"millrace_records_consumed_total", 1, 1},
                  {"millrace_record_bytes_total", 20, 200},
                  {"millrace_token_records_total", 1, 4},
                  {"millrace_result_records_total", 1, 1},
                  {"millrace_requests_finished_total", 1, 1},
                  {"millrace_prompt_tokens_total", 1, 10},
                  {"millrace_generation_tokens_total", 4, 4},
                  {"millrace_steps_total", 4, 5},
                  {"millrace_commits_total", 1, 20},
                  {"millrace_inter_token_latency_seconds_count", 3, 3},
                  {"millrace_publish_delay_seconds_count", 1, 4},
                  {"millrace_result_produce_errors_total", 0, 0},
                  {"millrace_lost_token_records_total", 0, 0}};
    char address[64], *page;
    snprintf(address, sizeof address, "127.0.0.1:%u", mr_http_port(worker->http));
    for (size_t i = 0, tries = 0; i < sizeof wanted / sizeof *wanted;) {
        assert_int_equal(mr_scrape_page(address, "/metrics", 5000, &page, NULL), MR_OK);
        double value = mr_scrape_sum(page, wanted[i].name, "");
        free(page);
        if (value >= wanted[i].least && value <= wanted[i].most)
            i++;
        else if (++tries > 100)
            fail_msg("%s is %g", wanted[i].name, value);
        else
            mr_clock_sleep_ms(110);
    }
}

static void a_request_is_answered_and_the_worker_exits_with_0(void **state)
{
    (void)state;
    static const char *const topic = "millrace.results";
    struct serving serving;
    struct producing producing;
    struct mr_worker *worker = NULL;
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_record record;
    enum mr_exit exit_code = MR_EXIT_FAILED;
    struct mr_error err = {0};
    open_serving(&serving, NULL, NULL);
    if (start(&serving, &worker, &exit_code, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(exit_code, MR_EXIT_DONE);
    assert_int_equal(mr_worker_health(worker, NULL), MR_OK);
    assert_metrics_are_made_every_100_ms(worker);
    assert_true(mr_worker_model(worker)->vocab_size > 0);
    assert_true(mr_worker_wake(worker)->fd >= 0);
    struct mr_kafka_reader_options options = {.kafka = &serving.broker.kafka,
                                              .topics = &topic,
                                              .topic_count = 1,
                                              .from = MR_KAFKA_FROM_BEGINNING,
                                              .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_OK);
    open_producing(&producing, &serving.broker);
    produce(&producing, "millrace.requests", 0, "k",
            "{\"id\":\"a\",\"prompt\":\"Hello\",\"max_tokens\":4,\"temperature\":0}");
    while (!mr_kafka_reader_take(reader, 1000, &record))
        assert_int_equal(mr_worker_health(worker, NULL), MR_OK);
    assert_memory_equal(record.key.bytes, "a", record.key.length);
    assert_non_null(memmem(record.value.bytes, record.value.length, "length", 6));
    assert_counters_of_one_answer(worker);
    assert_int_equal(mr_worker_drain(worker, 20000000000u, NULL, NULL, NULL), MR_EXIT_DONE);
    mr_kafka_reader_destroy(reader);
    mr_kafka_out_destroy(producing.out);
    close_serving(&serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_is_missing_has_its_exit_code),
        cmocka_unit_test(a_bad_configuration_has_its_exit_code),
        cmocka_unit_test(a_request_is_answered_and_the_worker_exits_with_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
