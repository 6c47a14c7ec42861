#include "worker/bench/bench_report.h"

#include "codec/wire/document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct mr_bench_figures example(void)
{
    struct mr_bench_figures figures = {.completed = 198,
                                       .failed = 2,
                                       .peak_concurrent = 64,
                                       .duration_s = 20,
                                       .input_tokens = 54000,
                                       .output_tokens = 12672,
                                       .request_throughput = 9.9,
                                       .output_throughput = 633.6};
    figures.ttft_ms =
        (struct mr_bench_summary){.count = 198, .mean = 12.5, .median = 11, .p99 = 30};
    return figures;
}

static char *printed(const struct mr_bench_setting *setting)
{
    char *text = NULL;
    size_t length = 0;
    struct mr_bench_figures figures = example();
    FILE *out = open_memstream(&text, &length);
    mr_bench_report_print(&figures, setting, out);
    fclose(out);
    return text;
}

static void assert_has(const char *text, const char *line)
{
    if (!strstr(text, line)) fail_msg("no \"%s\" in\n%s", line, text);
}

static void the_text_has_the_labels_that_parsers_expect(void **state)
{
    (void)state;
    struct mr_bench_setting setting = {.concurrency = 64, .rate = 2.5, .stream = true};
    char *text = printed(&setting);
    assert_has(text, "============ Serving Benchmark Result ============\n");
    assert_has(text, "Successful requests:                     198       \n");
    assert_has(text, "Failed requests:                         2         \n");
    assert_has(text, "Maximum request concurrency:             64        \n");
    assert_has(text, "Request rate configured (RPS):           2.50      \n");
    assert_has(text, "Benchmark duration (s):                  20.00     \n");
    assert_has(text, "Total input tokens:                      54000     \n");
    assert_has(text, "Total generated tokens:                  12672     \n");
    assert_has(text, "Request throughput (req/s):              9.90      \n");
    assert_has(text, "Output token throughput (tok/s):         633.60    \n");
    assert_has(text, "---------------Time to First Token----------------\n");
    assert_has(text, "Mean TTFT (ms):                          12.50     \n");
    assert_has(text, "Median TTFT (ms):                        11.00     \n");
    assert_has(text, "P99 TTFT (ms):                           30.00     \n");
    assert_has(text, "-----Time per Output Token (excl. 1st token)------\n");
    assert_has(text, "---------------Inter-token Latency----------------\n");
    assert_has(text, "----------------End-to-end Latency----------------\n");
    assert_has(text, "==================================================\n");
    free(text);
}

static void settings_and_figures_without_values_are_left_out(void **state)
{
    (void)state;
    struct mr_bench_setting setting = {.stream = false};
    char *text = printed(&setting);
    assert_null(strstr(text, "Maximum request concurrency"));
    assert_null(strstr(text, "Request rate configured"));
    assert_null(strstr(text, "TTFT"));
    assert_has(text, "E2EL");
    free(text);
}

static double number_in(struct mr_value root, const char *name)
{
    struct mr_value value;
    if (!mr_value_get(root, name, &value)) fail_msg("no %s", name);
    return mr_value_number(value);
}

static struct mr_bench_results *one_run(void)
{
    struct mr_bench_results *results = calloc(1, sizeof *results);
    assert_non_null(results);
    results->run_count = 1;
    results->runs[0] = (struct mr_bench_run){.setting = {.stream = true}, .figures = example()};
    return results;
}

static void the_file_is_one_json_object_with_the_same_figures(void **state)
{
    (void)state;
    char path[] = "/tmp/mr-bench-XXXXXX", text[8192];
    close(mkstemp(path));
    struct mr_bench_results *results = one_run();
    assert_int_equal(mr_bench_report_write(results, path, NULL), MR_OK);
    free(results);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    unlink(path);
    struct mr_document *document = NULL;
    assert_int_equal(
        mr_document_open(&document, (struct mr_text){text, length}, MR_ENCODING_JSON, NULL), MR_OK);
    struct mr_value root = mr_document_root(document), absent;
    assert_int_equal((int)number_in(root, "completed"), 198);
    assert_int_equal((int)(number_in(root, "mean_ttft_ms") * 10), 125);
    assert_int_equal((int)number_in(root, "p99_ttft_ms"), 30);
    assert_false(mr_value_get(root, "mean_itl_ms", &absent)); /* nothing was measured */
    mr_document_close(document);
}

static void a_file_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    struct mr_bench_results *results = one_run();
    struct mr_error err = {0};
    assert_int_equal(mr_bench_report_write(results, "/nowhere/at/all", &err), MR_BAD_CONFIG);
    free(results);
    assert_non_null(strstr(err.detail, "/nowhere/at/all"));
}

static void a_sweep_prints_its_runs_and_the_highest_rate_that_meets_the_objectives(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    struct mr_bench_results *results = one_run();
    results->objectives[results->objective_count++] =
        (struct mr_bench_objective){"ttft", "p99", 40};
    results->sweep = true;
    results->runs[0].setting.rate = 4;
    results->runs[0].met = true;
    results->runs[1] = results->runs[0];
    results->runs[1].setting.rate = 8;
    results->runs[1].figures.ttft_ms.p99 = 55;
    results->runs[1].met = false;
    results->run_count = 2;
    results->highest_rate = 4;
    FILE *out = open_memstream(&text, &length);
    mr_bench_report_print_objectives(results, out);
    fclose(out);
    assert_has(text, "Objective ttft p99 <= 40 ms:             30.00, met\n");
    assert_has(text, "         4 requests/s:     633.6 tok/s, P99 TTFT 30.0 ms");
    assert_has(text, "         8 requests/s:     633.6 tok/s, P99 TTFT 55.0 ms");
    assert_has(text, "Highest rate that meets them (RPS):      4.00 ");
    free(text);
    free(results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_has_the_labels_that_parsers_expect),
        cmocka_unit_test(settings_and_figures_without_values_are_left_out),
        cmocka_unit_test(the_file_is_one_json_object_with_the_same_figures),
        cmocka_unit_test(a_file_that_cannot_be_written_is_an_error),
        cmocka_unit_test(a_sweep_prints_its_runs_and_the_highest_rate_that_meets_the_objectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
