#include "worker/bench/bench_page.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct mr_bench_results *two_runs(void)
{
    struct mr_bench_results *results = calloc(1, sizeof *results);
    assert_non_null(results);
    results->objectives[0] = (struct mr_bench_objective){"ttft", "p99", 40};
    results->objective_count = 1;
    results->sweep = true;
    for (size_t i = 0; i < 2; i++) {
        struct mr_bench_run *run = &results->runs[results->run_count++];
        run->setting = (struct mr_bench_setting){.rate = i ? 8 : 4, .stream = true};
        run->figures = (struct mr_bench_figures){.completed = 10,
                                                 .output_throughput = i ? 700 : 400,
                                                 .ttft_ms = {.count = 10, .p99 = i ? 55 : 30}};
        run->met = i == 0;
        for (size_t k = 0; k < MR_BENCH_POINTS; k++)
            run->points[k] = (struct mr_bench_point){.at_s = (double)k,
                                                     .output_tokens_per_s = 400,
                                                     .ttft_median_ms = (double)NAN,
                                                     .itl_median_ms = 5};
    }
    results->highest_rate = 4;
    return results;
}

static char *written(const struct mr_bench_results *results)
{
    char path[] = "/tmp/mr-page-XXXXXX", *text = calloc(1, 1 << 20);
    close(mkstemp(path));
    assert_int_equal(mr_bench_page_write(results, path, NULL), MR_OK);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_true(fread(text, 1, (1 << 20) - 1, in) > 0);
    fclose(in);
    unlink(path);
    return text;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static void the_page_stands_alone(void **state)
{
    (void)state;
    struct mr_bench_results *results = two_runs();
    char *text = written(results);
    assert_null(strstr(text, "http"));
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "url("));
    assert_null(strstr(text, "nan"));
    assert_int_equal(count_of(text, "<svg"), count_of(text, "</svg>"));
    free(text);
    free(results);
}

static void a_sweep_shows_every_rate_and_the_best_run_over_time(void **state)
{
    (void)state;
    struct mr_bench_results *results = two_runs();
    char *text = written(results);
    assert_non_null(strstr(text, "<b>4 requests/s</b>"));
    assert_non_null(strstr(text, "<h2>At 4 requests/s</h2>"));
    assert_int_equal(count_of(text, "<svg"), 3 + 4);
    assert_non_null(strstr(text, "<td class=\"worse\">missed</td>"));
    free(text);
    results->sweep = false;
    results->run_count = 1;
    text = written(results);
    assert_int_equal(count_of(text, "<svg"), 4);
    assert_non_null(strstr(text, "<span class=\"better\">30 ms, met</span>"));
    free(text);
    results->runs[0].setting.stream = false;
    text = written(results);
    assert_int_equal(count_of(text, "<svg"), 2);
    free(text);
    free(results);
}

static void a_page_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    struct mr_bench_results *results = two_runs();
    struct mr_error err = {0};
    assert_int_equal(mr_bench_page_write(results, "/nowhere/page.html", &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "/nowhere/page.html"));
    free(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_stands_alone),
        cmocka_unit_test(a_sweep_shows_every_rate_and_the_best_run_over_time),
        cmocka_unit_test(a_page_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
