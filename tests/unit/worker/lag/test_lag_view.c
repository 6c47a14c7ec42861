#include "worker/lag/lag_view.h"

#include "tests/unit/worker/lag/lag_fixture.h"

#include <stdlib.h>

/* A forecast of two topics: one with everything known, one with nothing. */
struct shown {
    struct mr_config config;
    struct mr_lag_figures figures[2];
    struct mr_lag_forecast forecast;
    struct mr_lag_view view;
};

static void fill(struct shown *shown)
{
    const double unknown = (double)NAN;
    const struct mr_lag_figures known = {.waiting = 7,
                                         .started = 2,
                                         .unread = 1,
                                         .expired = 3,
                                         .tokens = 700,
                                         .worker_seconds = 12.5,
                                         .seconds = 6.25,
                                         .late = 4,
                                         .oldest_ms = NOW_MS - 1500,
                                         .deadline_ms = NOW_MS + 2500};
    *shown = (struct shown){.view = {.now_ms = NOW_MS, .failures = 9}};
    shown->config.request_topics[0] = (struct mr_request_topic){.name = "a", .tenant = "red"};
    shown->config.request_topics[1] = (struct mr_request_topic){.name = "b", .tenant = "x\"y"};
    shown->config.request_topic_count = 2;
    shown->figures[0] = known;
    shown->figures[1] = (struct mr_lag_figures){.waiting = 1,
                                                .tokens = unknown,
                                                .worker_seconds = unknown,
                                                .seconds = unknown,
                                                .late = unknown};
    shown->forecast = (struct mr_lag_forecast){.topics = shown->figures,
                                               .total = known,
                                               .workers_known = true,
                                               .workers = 2,
                                               .workers_wanted = 5,
                                               .speed = 800,
                                               .speed_requests = 8};
    shown->view.config = &shown->config;
    shown->view.forecast = &shown->forecast;
}

static char *print(enum mr_status (*make)(const struct mr_lag_view *, char **, size_t *,
                                          struct mr_error *),
                   const struct shown *shown)
{
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(make(&shown->view, &text, &length, NULL), MR_OK);
    assert_int_equal(length, strlen(text));
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("%s is not in:\n%s", part, text);
}

static void json_has_null_for_what_is_unknown(void **state)
{
    (void)state;
    struct shown shown;
    fill(&shown);
    char *text = print(mr_lag_view_json, &shown);
    has(text, "{\"workers_wanted\":5,\"workers\":2,\"tokens_per_second\":800,\"waiting\":7,");
    has(text, "{\"topic\":\"a\",\"tenant\":\"red\",\"waiting\":7,\"started\":2,\"unread\":1,"
              "\"expired\":3,\"tokens\":700,\"worker_seconds\":12.5,\"seconds\":6.25,\"late\":4,"
              "\"oldest_seconds\":1.5,\"deadline_seconds\":2.5}");
    has(text, "\"tenant\":\"x\\\"y\",\"waiting\":1,\"started\":0,\"unread\":0,\"expired\":0,"
              "\"tokens\":null,\"worker_seconds\":null,\"seconds\":null,\"late\":null,"
              "\"oldest_seconds\":null,\"deadline_seconds\":null}");
    free(text);
    shown.forecast.workers_known = false;
    text = print(mr_lag_view_json, &shown);
    has(text, "\"workers\":null,");
    free(text);
}

static void a_metric_is_absent_where_it_is_unknown(void **state)
{
    (void)state;
    struct shown shown;
    fill(&shown);
    char *text = print(mr_lag_view_metrics, &shown);
    has(text, "millrace_lag_up 1\n");
    has(text, "millrace_lag_refresh_failures_total 9\n");
    has(text, "\nmillrace_lag_requests_waiting{topic=\"a\",tenant=\"red\"} 7\n");
    has(text, "\nmillrace_lag_requests_waiting{topic=\"b\",tenant=\"x\\\"y\"} 1\n");
    has(text, "\nmillrace_lag_seconds{topic=\"a\",tenant=\"red\"} 6.25\n");
    assert_null(strstr(text, "millrace_lag_seconds{topic=\"b\""));
    has(text, "\nmillrace_lag_workers 2\n");
    has(text, "\nmillrace_lag_workers_wanted 5\n");
    free(text);
    shown.forecast.workers_known = false;
    shown.forecast.speed = (double)NAN;
    shown.figures[0] = shown.figures[1];
    text = print(mr_lag_view_metrics, &shown);
    assert_null(strstr(text, "millrace_lag_workers "));
    assert_null(strstr(text, "millrace_lag_tokens_per_second"));
    assert_null(strstr(text, "millrace_lag_seconds"));
    free(text);
}

static void after_a_failed_refresh_there_is_no_sample(void **state)
{
    (void)state;
    struct shown shown;
    fill(&shown);
    shown.view.forecast = NULL;
    char *text = print(mr_lag_view_metrics, &shown);
    has(text, "millrace_lag_up 0\n");
    assert_null(strstr(text, "waiting{"));
    assert_null(strstr(text, "wanted"));
    free(text);
}

static void the_table_has_a_row_for_each_topic_and_their_sum(void **state)
{
    (void)state;
    struct shown shown;
    char *text = NULL;
    size_t length = 0;
    fill(&shown);
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    mr_lag_view_table(&shown.view, out);
    assert_int_equal(fclose(out), 0);
    has(text, "\na                        red                  7        2        3        700"
              "       6.2      4      1.5       2.5\n");
    has(text, "x\"y                  1        0        0          -         -      -        -");
    has(text, "\nall ");
    has(text, "workers: 2 present, 5 wanted; 800 tokens/s a worker at 8 requests\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_null_for_what_is_unknown),
        cmocka_unit_test(a_metric_is_absent_where_it_is_unknown),
        cmocka_unit_test(after_a_failed_refresh_there_is_no_sample),
        cmocka_unit_test(the_table_has_a_row_for_each_topic_and_their_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
