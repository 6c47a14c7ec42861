#include "worker/cli/model_report.h"

#include "ops/files/model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PAGE_BYTES 4096

static void keep(void *context, const char *what, const char *text)
{
    char *page = context;
    size_t length = strlen(page);
    snprintf(page + length, PAGE_BYTES - length, "%s: %s\n", what, text);
}

/* context_tokens: --context-tokens; defaults: NULL, or used instead of the values in the model's
 * files. */
static void report_of(const char *path, uint64_t kv_bytes, uint32_t context_tokens,
                      const struct mr_sampling_defaults *defaults, char page[PAGE_BYTES])
{
    struct mr_error err = {0};
    struct mr_model_source source;
    struct mr_model_plan plan;
    const struct mr_model_options options = {
        .device = "cpu", .kv_bytes = kv_bytes, .context_tokens = context_tokens, .rows_max = 32};
    if (mr_model_files_read(&source, path, &err) != MR_OK ||
        mr_model_plan_make(&plan, &source, &options, &err) != MR_OK)
        fail_msg("%s: %s", path, err.detail);
    if (defaults) source.defaults = *defaults;
    page[0] = '\0';
    mr_model_report(&source, &plan, keep, page);
    mr_model_source_close(&source);
}

static void assert_says(const char *page, const char *want)
{
    if (!strstr(page, want)) fail_msg("\"%s\" is not in\n%s", want, page);
}

static void it_says_what_a_model_is_and_costs(void **state)
{
    (void)state;
    char page[PAGE_BYTES];
    report_of("tests/golden/models/mixtral", (uint64_t)64 << 20, 0, NULL, page);
    assert_says(page, "model: mixtral: family mixtral, Hugging Face folder of 1 file, BF16\n");
    assert_says(page, " parameters, 0.1 MiB in files; computed in bf16: 0.1 MiB of memory\n");
    assert_says(page, "experts of ");
    assert_says(page, "context: 1024 tokens\n");
    assert_says(page, " bytes a token in bf16; 64 MiB hold ");
    assert_says(page, "tokens: 263 tokens; first <s>; an answer ends with </s> (262)\n");
    assert_says(page, "template: yes, ");
    report_of("tests/golden/models/mixtral", (uint64_t)64 << 20, 2048, NULL, page);
    assert_says(page, "context: 1024 tokens, the model's limit: "
                      "--context-tokens 2048 has no effect\n");
    report_of("tests/golden/models/mixtral", (uint64_t)64 << 20, 512, NULL, page);
    assert_says(page, "context: 1024 tokens; --context-tokens allows 512\n");
    report_of("tests/golden/models/gemma3", 1, 0, NULL, page);
    assert_says(page, "a window of 16 tokens in 3 layers\n");
    assert_says(page, "; the longest sequence that fits into the memory for KV has ");
}

static void it_says_how_requests_are_sampled_that_do_not_say_it(void **state)
{
    (void)state;
    char page[PAGE_BYTES];
    const struct mr_sampling_defaults defaults = {
        .temperature = 0.6f, .top_p = 0.95f, .top_k = 20, .repetition_penalty = 1.05f};
    report_of("tests/golden/models/mixtral", 1, 0, NULL, page);
    assert_says(page, "sampling: without a temperature in the request: temperature 1; the model's "
                      "files name no defaults\n");
    report_of("tests/golden/models/mixtral", 1, 0, &defaults, page);
    assert_says(page, ": temperature 0.6, top_p 0.95, top_k 20, repetition_penalty 1.05\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_a_model_is_and_costs),
        cmocka_unit_test(it_says_how_requests_are_sampled_that_do_not_say_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
