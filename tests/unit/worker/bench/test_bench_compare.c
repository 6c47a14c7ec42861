#include "worker/bench/bench_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void write_file(char *path, const char *text)
{
    FILE *out = fdopen(mkstemp(path), "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static char *read_file(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_true(fread(text, 1, 65535, in) > 0);
    fclose(in);
    return text;
}

/* Compares the two files; the caller frees the table. */
static enum mr_status compare(const char *before, const char *after, const char *report,
                              char **table, struct mr_error *err)
{
    const char *paths[] = {before, after};
    struct mr_config config = {.arguments = paths, .argument_count = 2, .report = report};
    size_t length = 0;
    FILE *out = open_memstream(table, &length);
    enum mr_status status = mr_bench_compare(&config, out, err);
    fclose(out);
    return status;
}

static void numbers_of_both_files_are_compared(void **state)
{
    (void)state;
    char before[] = "/tmp/mr-old-XXXXXX", after[] = "/tmp/mr-new-XXXXXX";
    char page[] = "/tmp/mr-page-XXXXXX", *table = NULL;
    struct mr_error err = {0};
    write_file(before, "{\"program\":\"millrace 1\",\"output_throughput\":200,\"p99_ttft_ms\":40,"
                       "\"failed\":0,\"only_old\":1,\"completed\":100,\"mean_itl_ms\":10}");
    write_file(after, "{\"program\":\"millrace 2\",\"output_throughput\":250,\"p99_ttft_ms\":50,"
                      "\"failed\":1,\"only_new\":1,\"completed\":90,\"mean_itl_ms\":10.1}");
    close(mkstemp(page));
    assert_int_equal(compare(before, after, page, &table, &err), MR_OK);
    assert_non_null(strstr(table, "output_throughput                       200            250    "
                                  "+25.0% better\n"));
    assert_non_null(strstr(table, "p99_ttft_ms                              40             50    "
                                  "+25.0% worse\n"));
    assert_non_null(strstr(table, "completed                               100             90    "
                                  "-10.0%\n"));
    assert_non_null(strstr(table, "   +1.0%\n")); /* too small a change to be called worse */
    assert_non_null(
        strstr(table, "failed                                    0              1         -\n"));
    assert_null(strstr(table, "only_"));
    assert_null(strstr(table, "program"));
    free(table);
    char *text = read_file(page);
    assert_non_null(strstr(text, "<td>output_throughput</td><td>200</td><td>250</td>"
                                 "<td class=\"better\">+25.0 %</td>"));
    free(text);
    unlink(before);
    unlink(after);
    unlink(page);
}

static void files_that_are_missing_or_no_json_are_named(void **state)
{
    (void)state;
    char before[] = "/tmp/mr-old-XXXXXX", *table = NULL;
    struct mr_error err = {0};
    write_file(before, "[1,2]");
    assert_int_equal(compare("/nowhere/old.json", before, "", &table, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "/nowhere/old.json"));
    free(table);
    assert_int_equal(compare(before, before, "", &table, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, before));
    free(table);
    unlink(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_both_files_are_compared),
        cmocka_unit_test(files_that_are_missing_or_no_json_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
