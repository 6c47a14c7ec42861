#include "tests/unit/worker/metrics/metric_page.h"
#include "worker/metrics/process_metrics.h"

/* The module's output, which the caller frees. */
static char *printed(void)
{
    struct page page;
    mr_process_metrics_print(page_open(&page));
    return page_close(&page);
}

static void the_process_is_described(void **state)
{
    (void)state;
    char *text = printed();
    static const char *const names[] = {"process_cpu_seconds_total",
                                        "process_resident_memory_bytes",
                                        "process_virtual_memory_bytes",
                                        "process_threads",
                                        "process_start_time_seconds",
                                        "process_open_fds",
                                        "process_max_fds"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n%s ", names[i]);
        const char *found = strstr(text, line);
        assert_non_null(found);
        assert_true(strtod(found + strlen(line), NULL) >= 0);
    }
    page_has(text, "process_threads 1\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
