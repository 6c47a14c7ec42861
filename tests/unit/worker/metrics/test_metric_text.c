#include "worker/metrics/metric_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double bounds[] = {0.5, 1, 10};

static char *printed(const struct mr_histogram *histogram, const char *labels)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    mr_metric_put_histogram(histogram, "h", labels, out);
    fclose(out);
    return text;
}

static void buckets_are_printed_cumulative(void **state)
{
    (void)state;
    struct mr_histogram histogram;
    mr_histogram_init(&histogram, bounds, 3);
    mr_histogram_observe(&histogram, 0.25);
    mr_histogram_observe(&histogram, 5);
    mr_histogram_observe(&histogram, 50);
    char *text = printed(&histogram, "");
    assert_string_equal(text, "h_bucket{le=\"0.5\"} 1\nh_bucket{le=\"1\"} 1\n"
                              "h_bucket{le=\"10\"} 2\nh_bucket{le=\"+Inf\"} 3\n"
                              "h_sum 55.25\nh_count 3\n");
    free(text);
    text = printed(&histogram, "a=\"b\"");
    assert_non_null(strstr(text, "h_bucket{a=\"b\",le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(text, "h_sum{a=\"b\"} 55.25\n"));
    free(text);
}

static void heads_values_and_labels_are_prometheus_text(void **state)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    (void)state;
    assert_non_null(out);
    mr_metric_put_head(out, "a_total", "counter", "What it counts.");
    mr_metric_put_value(out, "b_bytes", "gauge", "A size.", 2.5);
    mr_metric_put_label(out, "topic", "back\\slash \"quote\" line\nfeed");
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "# HELP a_total What it counts.\n# TYPE a_total counter\n"
                              "# HELP b_bytes A size.\n# TYPE b_bytes gauge\nb_bytes 2.5\n"
                              "topic=\"back\\\\slash \\\"quote\\\" line\\nfeed\"");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_printed_cumulative),
        cmocka_unit_test(heads_values_and_labels_are_prometheus_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
