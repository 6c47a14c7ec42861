/* counters - reads counters as Prometheus does, on the page of metrics. */
#ifndef MR_TESTS_WORKER_COUNTERS_H
#define MR_TESTS_WORKER_COUNTERS_H

#include "worker/metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Fails unless the counter millrace_<name>_total has this value. */
static inline void assert_counter(struct mr_metrics *metrics, const char *name, unsigned value)
{
    char *page = NULL, line[128];
    size_t length = 0;
    assert_int_equal(
        mr_metrics_render(metrics, &(struct mr_metrics_gauges){0}, &page, &length, NULL), MR_OK);
    snprintf(line, sizeof line, "\nmillrace_%s_total %u\n", name, value);
    assert_non_null(strstr(page, line));
    free(page);
}

#endif
