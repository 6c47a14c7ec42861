#include "worker/trace/tracer_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_statistics_are_metrics(void **state)
{
    (void)state;
    struct mr_tracer_stats stats = {
        .spans = 1, .rejected = 2, .dropped = 3, .failures = 4, .waiting = 5};
    size_t length = 5;
    char *text = strdup("page\n");
    assert_int_equal(mr_tracer_metrics_append(&stats, &text, &length, NULL), MR_OK);
    assert_int_equal(strlen(text), length);
    assert_memory_equal(text, "page\n# HELP ", 12);
    assert_non_null(strstr(text, "\nmillrace_trace_spans_sent_total 1\n"));
    assert_non_null(strstr(text, "\nmillrace_trace_spans_rejected_total 2\n"));
    assert_non_null(strstr(text, "\nmillrace_trace_requests_dropped_total 3\n"));
    assert_non_null(strstr(text, "\nmillrace_trace_failures_total 4\n"));
    assert_non_null(strstr(text, "\nmillrace_trace_requests_waiting 5\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_statistics_are_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
