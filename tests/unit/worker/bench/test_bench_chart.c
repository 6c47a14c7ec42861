#include "worker/bench/bench_chart.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *drawn(const struct mr_bench_chart *chart)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    mr_bench_chart_print(chart, out);
    fclose(out);
    return text;
}

static void a_line_begins_anew_after_a_missing_value(void **state)
{
    (void)state;
    static const double x[] = {0, 1, 2, 3, 4};
    const double y[] = {0, 10, (double)NAN, 5, 10};
    struct mr_bench_chart chart = {.title = "a < b & \"c\"",
                                   .x_name = "seconds",
                                   .y_name = "ms",
                                   .x = x,
                                   .count = 5,
                                   .lines = {{"one", y}},
                                   .line_count = 1};
    char *text = drawn(&chart);
    assert_non_null(strstr(text, "a &lt; b &amp; &quot;c&quot;"));
    /* from the lower left corner; the highest value is at the top */
    assert_non_null(strstr(text, "d=\"M58.0 202.0L200.5 10.0M485.5 106.0L628.0 10.0\""));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "class=\"limit\""));
    free(text);
}

static void nothing_measured_and_one_value_are_drawn_too(void **state)
{
    (void)state;
    static const double one[] = {3};
    const double none[] = {(double)NAN};
    struct mr_bench_chart chart = {.title = "t",
                                   .x_name = "x",
                                   .y_name = "y",
                                   .x = one,
                                   .count = 1,
                                   .lines = {{"a", one}, {"b", none}},
                                   .line_count = 2,
                                   .limit = 2.5};
    char *text = drawn(&chart);
    assert_non_null(strstr(text, "<circle"));
    assert_non_null(strstr(text, "class=\"limit\""));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf\""));
    free(text);
    chart.count = 0;
    text = drawn(&chart);
    assert_null(strstr(text, "nan"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_begins_anew_after_a_missing_value),
        cmocka_unit_test(nothing_measured_and_one_value_are_drawn_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
