#include "worker/cli/adapter_report.h"

#include "ops/files/model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PAGE_BYTES 2048

static void keep(void *context, enum mr_adapter_verdict verdict, const char *text)
{
    char *page = context;
    const size_t length = strlen(page);
    snprintf(page + length, PAGE_BYTES - length, "%d %s\n", (int)verdict, text);
}

static void report_of(const char *model, const char *adapter, const char *folder,
                      char page[PAGE_BYTES])
{
    struct mr_model_source source;
    const struct mr_config config = {.adapter = {{adapter}, adapter != NULL}, .adapters = folder};
    assert_int_equal(mr_model_files_read(&source, model, NULL), MR_OK);
    page[0] = '\0';
    mr_adapter_report(&config, &source, keep, page);
    mr_model_source_close(&source);
}

static void adapters_are_checked_against_the_model(void **state)
{
    (void)state;
    static const char own[] = "tests/golden/models/llama3_rope_sharded";
    static const char other[] = "tests/golden/models/qwen2";
    static const char golden[] = "tests/golden/adapters/llama3_rope_sharded";
    char page[PAGE_BYTES];
    report_of(own, "a=tests/golden/adapters/llama3_rope_sharded/a00,tenant=t", golden, page);
    assert_memory_equal(page, "0 a: changes 10 layers, rank up to 2, 0.0 MiB", 45);
    assert_non_null(strstr(page, "\n0 a00: changes"));
    assert_non_null(strstr(page, "\n0 a01: changes"));
    report_of(other, "a=tests/golden/adapters/llama3_rope_sharded/a00", golden, page);
    assert_memory_equal(page, "2 a: tests/golden/adapters/llama3_rope_sharded/a00: tensor", 58);
    assert_non_null(strstr(page, "\n1 a00: "));
    report_of(own, "a", "no/such/folder", page);
    assert_non_null(strstr(page, "2 a value of --adapter is not NAME=PATH"));
    assert_non_null(strstr(page, "2 the folder of --adapters cannot be read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adapters_are_checked_against_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
