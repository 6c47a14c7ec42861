#include "worker/metrics/engine_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the module prints; the caller frees it. */
static char *page(const struct mr_engine_stats *engine)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    mr_engine_metrics_print(engine, out);
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

static void engine_statistics_are_rendered(void **state)
{
    (void)state;
    struct mr_engine_stats engine = {.running = 3,
                                     .waiting = 5,
                                     .cache.block_count = 8,
                                     .cache.free_count = 2,
                                     .cache.cached_count = 4,
                                     .cache.held_count = 2,
                                     .cache.queries_tokens = 1000,
                                     .cache.hit_tokens = 250,
                                     .generated_tokens = 77,
                                     .preemptions = 1,
                                     .model_ns = 1500000000};
    char *text = page(&engine);
    has(text, "millrace_requests_running 3\n");
    has(text, "millrace_requests_waiting{where=\"local\"} 5\n");
    has(text, "millrace_kv_usage_ratio 0.25\n");
    has(text, "millrace_kv_blocks{state=\"cached\"} 4\n");
    has(text, "millrace_prefix_cache_hits_tokens_total{tier=\"local\"} 250\n");
    has(text, "millrace_generation_tokens_total 77\n");
    has(text, "millrace_preemptions_total 1\n");
    has(text, "millrace_model_seconds_total 1.5\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_statistics_are_rendered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
