#include "worker/top/scrape.h"

#include "worker/http/http.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char page[] = "# HELP a_total Things.\n# TYPE a_total counter\n"
                           "a_total{x=\"1\",y=\"2\"} 3\n"
                           "a_total{x=\"2\",y=\"2\"} 4.5\n"
                           "a_total_more 100\n"
                           "b 7\n"
                           "h_bucket{t=\"1\",le=\"0.1\"} 1\n"
                           "h_bucket{t=\"1\",le=\"1\"} 3\n"
                           "h_bucket{t=\"1\",le=\"+Inf\"} 4\n"
                           "h_bucket{t=\"2\",le=\"0.1\"} 6\n"
                           "h_bucket{t=\"2\",le=\"1\"} 6\n"
                           "h_bucket{t=\"2\",le=\"+Inf\"} 6\n";

static void series_are_summed_by_name_and_labels(void **state)
{
    (void)state;
    assert_true(mr_scrape_sum(page, "a_total", "") == 7.5);
    assert_true(mr_scrape_sum(page, "a_total", "x=\"2\"") == 4.5);
    assert_true(mr_scrape_sum(page, "a_total", "x=\"3\"") == 0);
    assert_true(mr_scrape_sum(page, "b", "") == 7);
    assert_true(mr_scrape_sum(page, "none", "") == 0);
}

static void series_are_walked_through_one_by_one(void **state)
{
    (void)state;
    struct mr_scrape_series series;
    const char *at = page;
    assert_true(mr_scrape_next(&at, "a_total", &series));
    assert_int_equal(series.labels_length, strlen("x=\"1\",y=\"2\""));
    assert_memory_equal(series.labels, "x=\"1\",y=\"2\"", series.labels_length);
    assert_true(series.value == 3);
    assert_true(mr_scrape_next(&at, "a_total", &series) && series.value == 4.5);
    assert_false(mr_scrape_next(&at, "a_total", &series));
    assert_false(mr_scrape_next(&at, "a_total", &series));
    at = page;
    assert_true(mr_scrape_next(&at, "b", &series));
    assert_true(series.labels_length == 0 && series.value == 7);
}

static void quantiles_are_over_all_series_and_since_the_page_before(void **state)
{
    (void)state;
    static const char earlier[] = "h_bucket{t=\"2\",le=\"0.1\"} 6\nh_bucket{t=\"2\",le=\"1\"} 6\n"
                                  "h_bucket{t=\"2\",le=\"+Inf\"} 6\n";
    assert_true(mr_scrape_quantile(page, NULL, "h", 0.5) == 0.1);
    assert_true(mr_scrape_quantile(page, NULL, "h", 0.9) == 1);
    assert_true(isinf(mr_scrape_quantile(page, NULL, "h", 0.99)));
    assert_true(mr_scrape_quantile(page, earlier, "h", 0.5) == 1);
    assert_true(isnan(mr_scrape_quantile(page, page, "h", 0.5)));
    assert_true(isnan(mr_scrape_quantile(page, NULL, "none", 0.5)));
}

/* The first request is refused, as by a worker that is still loading. Later pages are longer than a
 * buffer. */
static void answer(void *context, enum mr_http_page which, struct mr_http_reply *reply)
{
    size_t length = 200000;
    assert_int_equal(which, MR_HTTP_METRICS);
    if ((*(unsigned *)context)++ == 0) {
        reply->code = 503;
        return;
    }
    reply->body = calloc(1, length + 1);
    assert_non_null(reply->body);
    memset(reply->body, '#', length);
    memcpy(reply->body + length - 6, "\nend 5", 6);
    reply->length = length;
}

static void a_page_is_fetched_whole(void **state)
{
    unsigned calls = 0;
    char address[64], *body;
    struct mr_http *http;
    struct mr_error err = {0};
    (void)state;
    assert_int_equal(mr_http_start(&http, "127.0.0.1:0", answer, &calls, NULL), MR_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", mr_http_port(http));
    assert_int_equal(mr_scrape_page(address, "/metrics", 5000, &body, &err), MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, "loads its model"));
    assert_null(body);
    assert_int_equal(mr_scrape_page(address, "/metrics", 5000, &body, &err), MR_OK);
    assert_int_equal(strlen(body), 200000);
    assert_true(mr_scrape_sum(body, "end", "") == 5);
    free(body);
    mr_http_stop(http);
    assert_int_equal(mr_scrape_page(address, "/metrics", 5000, &body, &err), MR_UNREACHABLE);
    assert_int_equal(mr_scrape_page("nonsense", "/metrics", 5000, &body, &err), MR_BAD_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_are_summed_by_name_and_labels),
        cmocka_unit_test(series_are_walked_through_one_by_one),
        cmocka_unit_test(quantiles_are_over_all_series_and_since_the_page_before),
        cmocka_unit_test(a_page_is_fetched_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
