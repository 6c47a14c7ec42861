/* The page of a gateway's metrics. */
#include "worker/gateway/counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_page_has_calls_counters_gauges_and_times(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "\nmillrace_gateway_calls_total{path=\"/v1/chat/completions\",code=\"200\"} 2\n",
        "\nmillrace_gateway_calls_total{path=\"other\",code=\"404\"} 1\n",
        "\nmillrace_gateway_tokens_total 5\n",
        "\nmillrace_gateway_calls_in_flight 3\n",
        "\nmillrace_gateway_time_to_first_token_seconds_count 1\n",
        "\nmillrace_gateway_call_seconds_count 0\n"};
    struct mr_gateway_counts counts;
    const struct mr_gateway_gauges gauges = {.in_flight = 3};
    char *text = NULL;
    size_t length = 0;
    mr_gateway_counts_open(&counts);
    mr_gateway_count_call(&counts, MR_OPENAI_CHAT, 200);
    mr_gateway_count_call(&counts, MR_OPENAI_CHAT, 200);
    mr_gateway_count_call(&counts, MR_OPENAI_ENDPOINTS, 404);
    mr_gateway_count(&counts, MR_GATEWAY_TOKENS, 5);
    mr_gateway_observe(&counts, 1000000, 0);
    assert_int_equal(mr_gateway_page(&counts, &gauges, &text, &length, NULL), MR_OK);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("no line %s", lines[i]);
    free(text);
    mr_gateway_counts_close(&counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_calls_counters_gauges_and_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
