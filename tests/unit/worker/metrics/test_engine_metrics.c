#include "tests/unit/worker/metrics/metric_page.h"
#include "worker/metrics/engine_metrics.h"

/* The module's output, which the caller frees. */
static char *printed(const struct mr_engine_stats *engine)
{
    struct page page;
    mr_engine_metrics_print(engine, page_open(&page));
    return page_close(&page);
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
    char *text = printed(&engine);
    page_has(text, "millrace_requests_running 3\n");
    page_has(text, "millrace_requests_waiting{where=\"local\"} 5\n");
    page_has(text, "millrace_kv_usage_ratio 0.25\n");
    page_has(text, "millrace_kv_blocks{state=\"cached\"} 4\n");
    page_has(text, "millrace_prefix_cache_hits_tokens_total{tier=\"local\"} 250\n");
    page_has(text, "millrace_generation_tokens_total 77\n");
    page_has(text, "millrace_preemptions_total 1\n");
    page_has(text, "millrace_model_seconds_total 1.5\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_statistics_are_rendered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
