#include "worker/serve/local.h"

#include "tests/unit/worker/serving.h"

#include "tests/unit/worker/model_copy.h"
#include "worker/serve/worker.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Nothing listens there: a worker that connects first waits for --broker-timeout, five minutes. */
#define NO_BROKER "--brokers", "127.0.0.1:1"

static void assert_ends(const char *model, const char *const *flags, enum mr_exit want,
                        const char *why)
{
    struct serving serving;
    struct mr_worker *worker = NULL;
    enum mr_exit exit_code = MR_EXIT_DONE;
    struct mr_error err = {0};
    open_serving(&serving, model, flags);
    const struct mr_worker_options options = {
        .config = serving.config, .join_group = true, .log = serving.log};
    assert_int_not_equal(mr_worker_create(&worker, &options, &exit_code, &err), MR_OK);
    assert_null(worker);
    if (exit_code != want || !strstr(err.detail, why)) fail_msg("%d: %s", exit_code, err.detail);
    close_serving(&serving);
}

static void a_wrong_model_ends_the_worker_before_it_looks_for_the_broker(void **state)
{
    (void)state;
    static const char *const flags[] = {NO_BROKER, NULL};
    static const struct {
        const char *file, *from, *to, *why;
    } cases[] = {
        {"tokenizer_config.json", "{% endfor %}", "{% endfro %}", "chat template"},
        {"config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "is missing"},
        {"config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "is not used"},
        {"config.json", "\"intermediate_size\": 64", "\"intermediate_size\": 128",
         "the model needs"},
        {"config.json", "\"llama\"", "\"lama\"", "lama"},
        {"tokenizer.json", "\"model\"", "\"modle\"", "vocabulary"},
    };
    assert_ends("none.gguf", flags, MR_EXIT_MODEL, "none.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scratch copy;
        model_copy_open(&copy, cases[i].file, cases[i].from, cases[i].to);
        assert_ends(copy.folder, flags, MR_EXIT_MODEL, cases[i].why);
        scratch_close(&copy);
    }
}

static void a_wrong_template_of_the_operator_ends_the_worker(void **state)
{
    (void)state;
    struct scratch scratch;
    char path[1024];
    scratch_open(&scratch);
    snprintf(path, sizeof path, "%s/t.jinja", scratch.folder);
    FILE *file = fopen(path, "wb");
    fputs("a\n{{ x | nofilter }}", file);
    fclose(file);
    const char *const flags[] = {NO_BROKER, "--chat-template", path, NULL};
    assert_ends(TINY_MODEL, flags, MR_EXIT_MODEL, "t.jinja: chat template line 2 column 8");
    const char *const absent[] = {NO_BROKER, "--chat-template", "/none", NULL};
    assert_ends(TINY_MODEL, absent, MR_EXIT_MODEL, "/none");
    scratch_close(&scratch);
}

static void a_wrong_option_ends_the_worker_before_it_looks_at_the_model(void **state)
{
    (void)state;
    static const struct {
        const char *const flags[8];
        const char *why;
    } cases[] = {
        {{NO_BROKER, "--device", "cuda"}, "cuda"},
        {{NO_BROKER, "--backend", "cpu", "--dtype", "fp16"},
         "the backend cpu cannot compute in f16"},
        {{NO_BROKER, "--redis", "http://x"}, "redis"},
        {{NO_BROKER, "--redis", "redis://x", "--redis-key-file", "/none"}, "/none"},
        {{NO_BROKER, "--redis", "redis://x", "--redis-password-file", "/none"}, "/none"},
        {{NO_BROKER, "--redis", "rediss://x", "--redis-ca", "/none"}, "/none"},
        {{NO_BROKER, "--state-dir", "/none/deeper"},
         "--state-dir /none/deeper: the folder /none does not exist"},
        {{NO_BROKER, "--state-dir", "/dev/null"}, "the folder /dev/null does not exist"},
        {{NO_BROKER, "--trace-endpoint", "http://u:secret@h"},
         "--trace-endpoint http://u:***@h: is not http://"},
        {{NO_BROKER, "--kafka", "acks=1"}, "acks"},
        {{NO_BROKER, "--kafka", "security.protocol=ssl", "--kafka", "ssl.ca.location=/none"},
         "ssl.ca.location"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_ends("none.gguf", cases[i].flags, MR_EXIT_USAGE, cases[i].why);
}

/* An error that only loading can find: the machine lacks the memory. */
static void a_failed_load_ends_the_wait_for_the_broker(void **state)
{
    (void)state;
    static const char *const flags[] = {NO_BROKER,          "--kv-memory", "900TB",
                                        "--broker-timeout", "60s",         NULL};
    assert_ends(TINY_MODEL, flags, MR_EXIT_MODEL,
                "--kv-memory is 858306885 MiB, and this process may use ");
}

static void note(void *context, const char *text)
{
    snprintf(context, 512, "%s", text);
}

static void a_secret_that_everybody_can_read_is_reported(void **state)
{
    (void)state;
    struct scratch scratch;
    struct serving serving;
    char path[PATH_MAX], found[512] = "";
    scratch_open(&scratch);
    snprintf(path, sizeof path, "%s/password", scratch.folder);
    FILE *file = fopen(path, "wb");
    fputs("hunter2", file);
    fclose(file);
    const char *const flags[] = {NO_BROKER, "--redis", "redis://x", "--redis-password-file",
                                 path,      NULL};
    open_serving(&serving, TINY_MODEL, flags);
    chmod(path, 0640);
    mr_local_check_secrets(serving.config, note, found);
    assert_string_equal(found, "");
    chmod(path, 0644);
    mr_local_check_secrets(serving.config, note, found);
    assert_non_null(strstr(found, "--redis-password-file: every user of this machine can read "));
    assert_non_null(strstr(found, "(mode 0644)"));
    close_serving(&serving);
    scratch_close(&scratch);
}

/* A second worker on one machine: the error about the machine comes first; the one about the port
 * names the option. */
static void a_port_in_use_hides_no_wrong_model(void **state)
{
    (void)state;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof place;
    char address[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&place, length), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &length), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(place.sin_port));
    const char *const flags[] = {NO_BROKER, "--http", address, NULL};
    assert_ends("none.gguf", flags, MR_EXIT_MODEL, "none.gguf");
    assert_ends(TINY_MODEL, flags, MR_EXIT_USAGE, "--http");
    assert_ends(TINY_MODEL, flags, MR_EXIT_USAGE, address);
    close(fd);
}

/* The files are read once; the engine gets what was read. */
static void the_files_are_handed_to_the_model(void **state)
{
    (void)state;
    struct serving serving;
    struct mr_model_source source;
    struct mr_model *model = NULL;
    struct mr_error err = {0};
    open_serving(&serving, TINY_MODEL, NULL);
    if (mr_local_open_model(&source, serving.config, &err) != MR_OK) fail_msg("%s", err.detail);
    const struct mr_tokenizer *tokenizer = source.tokenizer;
    const struct mr_model_options options = {.path = "none",
                                             .source = &source,
                                             .device = "cpu",
                                             .kv_bytes = (uint64_t)32 << 20,
                                             .rows_max = 8,
                                             .sequences_max = 1};
    if (mr_model_open(&model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_ptr_equal(mr_model_tokenizer(model), tokenizer);
    assert_null(source.tokenizer);
    mr_model_source_close(&source);
    mr_model_close(model);
    close_serving(&serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_model_ends_the_worker_before_it_looks_for_the_broker),
        cmocka_unit_test(a_wrong_template_of_the_operator_ends_the_worker),
        cmocka_unit_test(a_wrong_option_ends_the_worker_before_it_looks_at_the_model),
        cmocka_unit_test(a_failed_load_ends_the_wait_for_the_broker),
        cmocka_unit_test(a_secret_that_everybody_can_read_is_reported),
        cmocka_unit_test(a_port_in_use_hides_no_wrong_model),
        cmocka_unit_test(the_files_are_handed_to_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
