#include "worker/metrics/process_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the module prints; the caller frees it. */
static char *page(void)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    mr_process_metrics_print(out);
    assert_int_equal(fclose(out), 0);
    char *copy = strdup(text); /* GCC takes the stream's own text for a part of this frame */
    free(text);
    return copy;
}

static void has(const char *text, const char *line)
{
    const char *found = strstr(text, line);
    if (!found || (found > text && found[-1] != '\n')) fail_msg("the page lacks: %s", line);
}

static void the_process_is_described(void **state)
{
    (void)state;
    char *text = page();
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
    has(text, "process_threads 1\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
