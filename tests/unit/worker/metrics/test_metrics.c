#include "tests/unit/worker/metrics/metric_page.h"
#include "worker/base/clock.h"
#include "worker/base/version.h"
#include "worker/metrics/metrics.h"

#include <ctype.h>
#include <pthread.h>

static const struct mr_request_topic topics[] = {{.name = "red", .tenant = "r"},
                                                 {.name = "blue", .tenant = "b"}};
static const struct mr_metrics_info info = {.topics = topics,
                                            .topic_count = 2,
                                            .kafka_version = "2.8.0",
                                            .worker = "w\"1",
                                            .model = "m\\n",
                                            .dtype = "bf16",
                                            .device = "cpu",
                                            .block_tokens = 256,
                                            .context_tokens = 8192,
                                            .sequences_max = 64};

static int create(void **state)
{
    struct mr_error err;
    struct mr_metrics *metrics;
    assert_int_equal(mr_metrics_create(&metrics, &info, &err), MR_OK);
    *state = metrics;
    return 0;
}

static int destroy(void **state)
{
    mr_metrics_destroy(*state);
    return 0;
}

/* The rendered page; the caller frees it. */
static char *page(struct mr_metrics *metrics, const struct mr_engine_stats *engine)
{
    char *text = NULL;
    size_t length;
    struct mr_error err;
    struct mr_metrics_gauges gauges = {.engine = engine,
                                       .ready = true,
                                       .parked = 3,
                                       .weight_bytes = 270000000,
                                       .kv_pool_bytes = 7};
    assert_int_equal(mr_metrics_render(metrics, &gauges, &text, &length, &err), MR_OK);
    assert_int_equal(strlen(text), length);
    return text;
}

static void counters_add_up(void **state)
{
    mr_metrics_add(*state, MR_COUNTER_RECORDS_CONSUMED, 1);
    mr_metrics_add(*state, MR_COUNTER_RECORDS_CONSUMED, 41);
    char *text = page(*state, NULL);
    page_has(text, "millrace_records_consumed_total 42\n");
    page_has(text, "millrace_dead_letters_total 0\n");
    page_has(text, "millrace_ready 1\n");
    page_has(text, "millrace_requests_parked 3\n");
    char built[128];
    (void)snprintf(built, sizeof built,
                   "millrace_build_info{version=\"%s\",librdkafka=\"2.8.0\"} 1\n", mr_version);
    page_has(text, built);
    page_has(text, "millrace_model_memory_bytes{part=\"weights\"} 270000000\n");
    page_has(text, "millrace_model_memory_bytes{part=\"kv_pool\"} 7\n");
    page_has(text, "millrace_model_info{worker=\"w\\\"1\",model=\"m\\\\n\",dtype=\"bf16\",");
    assert_null(strstr(text, "millrace_requests_running"));
    free(text);
}

static void transactions_are_counted_and_the_open_one_has_an_age(void **state)
{
    uint64_t now_ns = mr_clock_ns();
    mr_metrics_transaction_began(*state, 7, now_ns);
    char *text = page(*state, NULL);
    page_has(text, "millrace_transaction_requests 7\n");
    assert_null(strstr(text, "millrace_transaction_age_seconds 0\n"));
    free(text);
    mr_metrics_transaction_ended(*state, true, now_ns + 500000000);
    mr_metrics_transaction_began(*state, 7, now_ns);
    mr_metrics_transaction_ended(*state, false, now_ns + 500000000);
    text = page(*state, NULL);
    page_has(text, "millrace_transaction_requests 0\n");
    page_has(text, "millrace_transaction_age_seconds 0\n");
    page_has(text, "millrace_transaction_seconds_sum 0.5\n");
    page_has(text, "millrace_transaction_seconds_count 1\n");
    page_has(text, "millrace_transactions_committed_total 1\n");
    page_has(text, "millrace_transactions_aborted_total 1\n");
    free(text);
}

static void times_of_tokens_fill_their_histograms(void **state)
{
    mr_metrics_observe_gap(*state, 30000000);
    mr_metrics_observe_publish_delay(*state, 2000000);
    char *text = page(*state, NULL);
    page_has(text, "millrace_inter_token_latency_seconds_bucket{le=\"0.05\"} 1\n");
    page_has(text, "millrace_inter_token_latency_seconds_bucket{le=\"0.025\"} 0\n");
    page_has(text, "millrace_publish_delay_seconds_bucket{le=\"0.0025\"} 1\n");
    page_has(text, "millrace_publish_delay_seconds_sum 0.002\n");
    free(text);
}

static void the_page_has_the_parts_of_other_modules(void **state)
{
    struct mr_engine_stats engine = {.running = 3};
    struct mr_choice choice = {.finish = MR_FINISH_EOS, .completion_tokens = 21};
    struct mr_result result = page_result(&choice);
    mr_metrics_observe_result(*state, 1, &result, 2000);
    char *text = page(*state, &engine);
    page_has(text, "millrace_requests_running 3\n");
    page_has(text, "millrace_e2e_request_latency_seconds_count{topic=\"blue\"} 1\n");
    assert_non_null(strstr(text, "\nprocess_open_fds "));
    free(text);
}

static void lag_is_by_partition_until_it_is_dropped(void **state)
{
    mr_metrics_set_lag(*state, "a", 0, 7, 2);
    mr_metrics_set_lag(*state, "a", 1, -1, 3);
    mr_metrics_set_lag(*state, "b", 0, 5, 0);
    mr_metrics_set_lag(*state, "a", 0, 8, 2);
    mr_metrics_drop_lag(*state, "b", 0);
    mr_metrics_drop_lag(*state, "never", 0);
    char *text = page(*state, NULL);
    page_has(text, "millrace_consumer_lag{topic=\"a\",partition=\"0\"} 8\n");
    page_has(text, "millrace_commit_lag_records{topic=\"a\",partition=\"1\"} 3\n");
    assert_null(strstr(text, "millrace_consumer_lag{topic=\"a\",partition=\"1\"}"));
    assert_null(strstr(text, "topic=\"b\""));
    free(text);
}

static void partitions_beyond_the_limit_are_left_out(void **state)
{
    for (int32_t i = 0; i < (int32_t)MR_METRICS_PARTITIONS_MAX + 10; i++)
        mr_metrics_set_lag(*state, "t", i, i, i);
    char *text = page(*state, NULL), name[64];
    snprintf(name, sizeof name, "partition=\"%zu\"", MR_METRICS_PARTITIONS_MAX - 1);
    assert_non_null(strstr(text, name));
    snprintf(name, sizeof name, "partition=\"%zu\"", MR_METRICS_PARTITIONS_MAX);
    assert_null(strstr(text, name));
    free(text);
}

/* Every line is a comment or NAME[{labels}] NUMBER. */
static void the_page_is_well_formed(void **state)
{
    struct mr_engine_stats engine = {.running = 1};
    struct mr_choice choice = {.finish = MR_FINISH_LENGTH, .completion_tokens = 1};
    struct mr_result result = page_result(&choice);
    mr_metrics_observe_result(*state, 0, &result, 5);
    mr_metrics_set_lag(*state, "t", 0, 1, 1);
    char *text = page(*state, &engine);
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "# ", 2) == 0) continue;
        size_t name = strcspn(line, "{ ");
        for (size_t i = 0; i < name; i++)
            assert_true(islower((unsigned char)line[i]) || isdigit((unsigned char)line[i]) ||
                        line[i] == '_');
        const char *value = line[name] == '{' ? strstr(line, "} ") + 2 : line + name + 1;
        char *end;
        strtod(value, &end);
        assert_true(end > value && *end == '\n');
    }
    assert_ptr_equal(strstr(text, "# TYPE millrace_time_to_first_token_seconds histogram"),
                     strstr(text, "# TYPE millrace_time_to_first_token_seconds"));
    free(text);
}

static void *feed(void *metrics)
{
    struct mr_choice choice = {.finish = MR_FINISH_EOS, .completion_tokens = 2};
    struct mr_result result = page_result(&choice);
    for (int i = 0; i < 1000; i++) {
        mr_metrics_add(metrics, MR_COUNTER_COMMITS, 1);
        mr_metrics_observe_result(metrics, 0, &result, 1);
        mr_metrics_observe_gap(metrics, 1000000);
        mr_metrics_count_end(metrics, 0, &(struct mr_request_end){.finish = MR_FINISH_EOS});
    }
    return NULL;
}

static void threads_update_while_a_page_is_rendered(void **state)
{
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, feed, *state), 0);
    free(page(*state, NULL));
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    char *text = page(*state, NULL);
    page_has(text, "millrace_commits_total 3000\n");
    page_has(text, "millrace_inter_token_latency_seconds_count 3000\n");
    page_has(text, "millrace_requests_finished_total{reason=\"eos\",code=\"\",topic=\"red\",tenant="
                   "\"r\"} 3000\n");
    free(text);
}

#define METRICS_TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        METRICS_TEST(counters_add_up),
        METRICS_TEST(transactions_are_counted_and_the_open_one_has_an_age),
        METRICS_TEST(times_of_tokens_fill_their_histograms),
        METRICS_TEST(the_page_has_the_parts_of_other_modules),
        METRICS_TEST(lag_is_by_partition_until_it_is_dropped),
        METRICS_TEST(partitions_beyond_the_limit_are_left_out),
        METRICS_TEST(the_page_is_well_formed),
        METRICS_TEST(threads_update_while_a_page_is_rendered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
