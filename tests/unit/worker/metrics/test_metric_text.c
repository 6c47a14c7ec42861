#include "worker/metrics/metric_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
        cmocka_unit_test(heads_values_and_labels_are_prometheus_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
