#include "worker/serve/banner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct mr_config config = {.model_name = "tiny",
                                        .worker_id = "w1",
                                        .request_topics = {{.name = "r1"}, {.name = "r2"}},
                                        .request_topic_count = 2,
                                        .tokens_topic = "t",
                                        .results_topic = "s",
                                        .cancel_topic = "c",
                                        .dlq_topic = "d",
                                        .group = "g",
                                        .http = "127.0.0.1:0"};
static const struct mr_model_info model = {.architecture = "llama",
                                           .file_type = "Q4_K_M",
                                           .device = "cpu",
                                           .dtype = "fp32",
                                           .parameter_count = 135000000,
                                           .block_count = 4,
                                           .kv_pool_bytes = 4 * MR_BLOCK_TOKENS * 1024};

static char *print(const struct mr_banner *banner)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    mr_banner_print(banner, out);
    fclose(out);
    return text;
}

static void assert_says(const char *text, const char *want)
{
    if (!strstr(text, want)) fail_msg("no \"%s\" in:\n%s", want, text);
}

/* Of Gemma 3, whose files have a part for pictures. */
static const struct mr_model_info text_part = {
    .architecture = "gemma3_text", .device = "cpu", .dtype = "bf16", .text_only = true};

static const struct mr_machine limited = {.core_count = 64,
                                          .cpu_quota = 1.5,
                                          .memory_bytes = (uint64_t)64 << 30,
                                          .memory_limit_bytes = (uint64_t)4 << 30};
static const struct mr_machine whole = {.core_count = 64, .memory_bytes = (uint64_t)64 << 30};

static void the_banner_has_model_topics_and_addresses(void **state)
{
    (void)state;
    const struct mr_banner banner = {.config = &config,
                                     .model = &model,
                                     .machine = &limited,
                                     .thread_count = 2,
                                     .brokers = "b:9092",
                                     .context_tokens = 512,
                                     .partition_count = 8,
                                     .http_port = 9464,
                                     .start_seconds = 1.26};
    char *text = print(&banner);
    size_t lines = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    assert_in_range(lines, 1, 15);
    assert_says(text, "worker w1");
    assert_says(text, "tiny (llama in Q4_K_M, 135 M parameters)");
    assert_says(text, "longest sequence 512");
    assert_says(text, ", 2 threads (64 cores, CPU quota 1.5)\n");
    assert_says(text, " MiB, memory limit 4096 MiB), longest");
    assert_says(text, "b:9092\n");
    assert_says(text, "r1, r2 (8 partitions), cancel c");
    assert_says(text, "t, s, d");
    assert_says(text, "http://127.0.0.1:9464 ");
    assert_says(text, "started in 1.3 s\n");
    free(text);
}

static void disabled_parts_are_left_out_and_a_test_broker_is_named(void **state)
{
    (void)state;
    struct mr_config fixed = config;
    fixed.deterministic = true;
    const struct mr_banner banner = {.config = &fixed,
                                     .model = &model,
                                     .machine = &whole,
                                     .thread_count = 64,
                                     .brokers = "b:9092",
                                     .embedded = true};
    char *text = print(&banner);
    assert_null(strstr(text, "http"));
    assert_says(text, "embedded test broker");
    assert_says(text, ", 64 threads (64 cores)\n");
    assert_null(strstr(text, "limit"));
    assert_says(text, "cpu fp32, deterministic");
    free(text);
}

static void a_model_of_which_only_the_text_part_is_loaded_says_so(void **state)
{
    (void)state;
    const struct mr_banner banner = {
        .config = &config, .model = &text_part, .machine = &whole, .brokers = "b:9092"};
    char *text = print(&banner);
    assert_says(text, "(gemma3_text, 0 M parameters; text only, its other parts are not loaded)");
    free(text);
}

static void a_json_log_gets_one_line_with_fields(void **state)
{
    (void)state;
    const struct mr_banner banner = {.config = &config,
                                     .model = &model,
                                     .machine = &limited,
                                     .thread_count = 2,
                                     .brokers = "b:9092",
                                     .context_tokens = 512,
                                     .partition_count = 8,
                                     .start_seconds = 1.5};
    char text[MR_LOG_LINE_BYTES];
    struct mr_log *log = NULL;
    FILE *file = tmpfile();
    assert_non_null(file);
    const struct mr_log_options options = {
        .fd = fileno(file), .format = MR_LOG_JSON, .level = MR_LOG_INFO, .worker = "w1"};
    assert_int_equal(mr_log_create(&log, &options, NULL), MR_OK);
    mr_banner_log(&banner, log);
    ssize_t length = pread(fileno(file), text, sizeof text - 1, 0);
    assert_true(length > 0);
    text[length] = '\0';
    assert_ptr_equal(strchr(text, '\n'), text + length - 1);
    assert_says(text, "\"msg\":\"started\",\"seconds\":1.5,");
    assert_says(text, "\"threads\":2,\"kv_pool_tokens\":");
    assert_says(text, "\"request_topics\":\"r1, r2\",\"partitions\":8,");
    mr_log_destroy(log);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_json_log_gets_one_line_with_fields),
        cmocka_unit_test(the_banner_has_model_topics_and_addresses),
        cmocka_unit_test(disabled_parts_are_left_out_and_a_test_broker_is_named),
        cmocka_unit_test(a_model_of_which_only_the_text_part_is_loaded_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
