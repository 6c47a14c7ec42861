#include "worker/adapters/adapter_metrics.h"

#include "ops/model/model.h"

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
    const struct mr_text_list named = {{"tuned=tests/golden/adapters/llama3_rope_sharded/a00"}, 1};
    const struct mr_adapters_options options = {&named, "", 1 << 20, NULL};
    const struct mr_model_options model_options = {.path =
                                                       "tests/golden/models/llama3_rope_sharded",
                                                   .device = "cpu",
                                                   .thread_count = 1,
                                                   .adapters = true,
                                                   .rows_max = 32,
                                                   .sequences_max = 4,
                                                   .kv_bytes = 1 << 20};
    struct mr_model *model;
    struct mr_adapters *adapters;
    size_t length = 5;
    char *text = strdup("page\n");
    assert_int_equal(mr_model_open(&model, &model_options, NULL), MR_OK);
    assert_int_equal(mr_adapters_create(&adapters, &options, NULL), MR_OK);
    assert_int_equal(mr_adapters_open(adapters, model, 0, NULL), MR_OK);
    mr_adapters_drop(adapters, mr_adapters_take(adapters, (struct mr_text){"tuned", 5}, "default"));
    assert_int_equal(mr_adapter_metrics_append(adapters, &text, &length, NULL), MR_OK);
    assert_int_equal(strlen(text), length);
    assert_memory_equal(text, "page\n# HELP ", 12);
    assert_non_null(strstr(text, "\nmillrace_adapters_listed 1\n"));
    assert_non_null(strstr(text, "\nmillrace_adapters_loaded 0\n"));
    assert_non_null(strstr(text, "\nmillrace_adapter_bytes 0\n"));
    assert_non_null(strstr(text, "\nmillrace_adapter_requests_total{adapter=\"tuned\"} 1\n"));
    assert_non_null(strstr(text, "\nmillrace_adapter_requests_total{adapter=\"\"} 0\n"));
    free(text);
    mr_adapters_destroy(adapters);
    mr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_statistics_are_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
