#include "tests/unit/worker/metrics/metric_page.h"
#include "worker/metrics/request_metrics.h"

static const struct mr_request_topic topics[] = {{.name = "red", .tenant = "r"},
                                                 {.name = "blue", .tenant = "b"}};

static int create(void **state)
{
    struct mr_request_metrics *requests;
    assert_int_equal(mr_request_metrics_create(&requests, topics, 2, NULL), MR_OK);
    *state = requests;
    return 0;
}

static int destroy(void **state)
{
    mr_request_metrics_destroy(*state);
    return 0;
}

/* The module's output, which the caller frees. */
static char *printed(const struct mr_request_metrics *requests)
{
    struct page page;
    mr_request_metrics_print(requests, page_open(&page));
    return page_close(&page);
}

static void results_fill_the_histograms_of_their_topic(void **state)
{
    struct mr_choice choice = {.finish = MR_FINISH_EOS, .completion_tokens = 21};
    struct mr_result result = page_result(&choice);
    mr_request_metrics_observe(*state, 1, &result, 2000);
    result.has_deadline = true;
    result.margin_ms = -500;
    mr_request_metrics_observe(*state, 1, &result, -1);
    char *text = printed(*state);
    page_has(text,
             "millrace_time_to_first_token_seconds_count{from=\"intake\",topic=\"blue\"} 2\n");
    page_has(text, "millrace_time_to_first_token_seconds_count{from=\"intake\",topic=\"red\"} 0\n");
    page_has(text, "millrace_time_to_first_token_seconds_sum{from=\"record\",topic=\"blue\"} 2\n");
    page_has(text, "millrace_e2e_request_latency_seconds_sum{topic=\"blue\"} 6\n");
    page_has(text, "millrace_request_decode_time_seconds_sum{topic=\"blue\"} 4\n");
    page_has(text, "millrace_request_queue_time_seconds_sum{topic=\"blue\"} 0.8\n");
    page_has(text, "millrace_request_generation_tokens_sum{topic=\"blue\"} 42\n");
    page_has(text, "millrace_request_deadline_margin_seconds_count{topic=\"blue\"} 1\n");
    page_has(text,
             "millrace_request_deadline_margin_seconds_bucket{topic=\"blue\",le=\"-0.1\"} 1\n");
    page_has(text, "millrace_request_deadline_margin_seconds_bucket{topic=\"blue\",le=\"-1\"} 0\n");
    free(text);
}

static void rejected_requests_do_not_flatter_the_times(void **state)
{
    struct mr_choice choice = {.finish = MR_FINISH_REJECTED};
    struct mr_result result = page_result(&choice);
    result.error = MR_MALFORMED;
    mr_request_metrics_observe(*state, 0, &result, -1);
    char *text = printed(*state);
    page_has(text, "millrace_e2e_request_latency_seconds_count{topic=\"red\"} 0\n");
    free(text);
}

/* The sum of the values of one metric over all its series. */
static double sum_of(const char *text, const char *name)
{
    double sum = 0;
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, name, length) == 0 && line[length] == '{')
            sum += strtod(strstr(line, "} ") + 2, NULL);
    return sum;
}

#define FINISHED "millrace_requests_finished_total"

static void every_pair_of_reason_and_code_has_one_series(void **state)
{
    double count = 0;
    for (unsigned finish = MR_FINISH_NONE + 1; finish < MR_FINISH_COUNT; finish++)
        for (unsigned status = MR_OK; status < MR_STATUS_COUNT; status++) {
            struct mr_request_end end = {.finish = (enum mr_finish)finish,
                                         .error = (enum mr_status)status};
            mr_request_metrics_count_end(*state, status % 2, &end);
            char *text = printed(*state);
            assert_true(sum_of(text, FINISHED) == ++count);
            free(text);
        }
    mr_request_metrics_count_end(*state, 1, &(struct mr_request_end){.duplicate = true});
    char *text = printed(*state);
    page_has(text, FINISHED "{reason=\"duplicate\",code=\"\",topic=\"blue\",tenant=\"b\"} 1\n");
    page_has(text, FINISHED "{reason=\"duplicate\",code=\"\",topic=\"red\",tenant=\"r\"} 0\n");
    assert_true(sum_of(text, FINISHED) == count + 1);
    free(text);
}

static void usual_ends_are_on_the_page_before_the_first_and_others_after(void **state)
{
    char *text = printed(*state);
    page_has(text, FINISHED "{reason=\"eos\",code=\"\",topic=\"red\",tenant=\"r\"} 0\n");
    page_has(text,
             FINISHED "{reason=\"rejected\",code=\"malformed\",topic=\"red\",tenant=\"r\"} 0\n");
    page_has(text, FINISHED
             "{reason=\"deadline\",code=\"deadline_exceeded\",topic=\"red\",tenant=\"r\"} 0\n");
    page_has(text, FINISHED "{reason=\"error\",code=\"internal\",topic=\"red\",tenant=\"r\"} 0\n");
    assert_null(strstr(text, "{reason=\"eos\",code=\"record_too_large\""));
    assert_null(strstr(text, "{reason=\"eos\",code=\"malformed\""));
    free(text);
    struct mr_request_end end = {.finish = MR_FINISH_EOS, .error = MR_RECORD_TOO_LARGE};
    mr_request_metrics_count_end(*state, 0, &end);
    text = printed(*state);
    page_has(text,
             FINISHED "{reason=\"eos\",code=\"record_too_large\",topic=\"red\",tenant=\"r\"} 1\n");
    free(text);
}

static void the_page_of_twenty_tenants_stays_below_a_megabyte(void **state)
{
    static struct mr_request_topic many[20];
    static char names[20][64];
    struct mr_request_metrics *metrics;
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "millrace.requests-of-a-team-with-a-long-name-%zu", i);
        many[i] = (struct mr_request_topic){.name = names[i], .tenant = names[i]};
    }
    assert_int_equal(mr_request_metrics_create(&metrics, many, 20, NULL), MR_OK);
    for (size_t topic = 0; topic < 20; topic++)
        for (unsigned status = MR_OK; status < MR_STATUS_COUNT; status++) {
            struct mr_request_end end = {.finish = MR_FINISH_REJECTED,
                                         .error = (enum mr_status)status};
            mr_request_metrics_count_end(metrics, topic, &end);
        }
    char *text = printed(metrics);
    assert_true(strlen(text) < 900000); /* the rest of the page takes less than 100 kB */
    free(text);
    mr_request_metrics_destroy(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(results_fill_the_histograms_of_their_topic, create,
                                        destroy),
        cmocka_unit_test_setup_teardown(rejected_requests_do_not_flatter_the_times, create,
                                        destroy),
        cmocka_unit_test_setup_teardown(every_pair_of_reason_and_code_has_one_series, create,
                                        destroy),
        cmocka_unit_test_setup_teardown(
            usual_ends_are_on_the_page_before_the_first_and_others_after, create, destroy),
        cmocka_unit_test_setup_teardown(the_page_of_twenty_tenants_stays_below_a_megabyte, create,
                                        destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
