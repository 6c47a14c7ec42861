#include "worker/cli/cli.h"

#include "worker/kafka/kafka_admin.h"

#include "tests/unit/worker/broker.h"
#include "tests/unit/worker/fake_redis.h"
#include "tests/unit/worker/model_copy.h"
#include "tests/unit/worker/producing.h"

#include <string.h>
#include <unistd.h>

/* Runs `millrace ...` in this process; the arguments end with a NULL. */
static int run(const char *const *arguments)
{
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    int count = 0;
    char *none[] = {NULL};
    while (arguments[count])
        count++;
    if (mr_config_create(&config, count, (char *const *)(uintptr_t)arguments, none, &err) != MR_OK)
        fail_msg("%s", err.detail);
    int code = mr_cli_run(config);
    mr_config_destroy(config);
    return code;
}

static void commands_end_with_the_code_of_what_happened(void **state)
{
    (void)state;
    assert_int_equal(run((const char *const[]){"millrace", "version", NULL}), MR_EXIT_DONE);
    assert_int_equal(run((const char *const[]){"millrace", "help", "send", NULL}), MR_EXIT_DONE);
    assert_int_equal(run((const char *const[]){"millrace", "help", "sand", NULL}), MR_EXIT_USAGE);
    assert_int_equal(
        run((const char *const[]){"millrace", "tokenize", "--model", "none.gguf", "x", NULL}),
        MR_EXIT_MODEL);
}

/* Runs a command with the address of the broker as the value of --brokers. */
static int run_with(const struct broker *broker, const char *const *arguments)
{
    const char *words[16];
    size_t count = 0;
    for (; arguments[count]; count++)
        words[count] =
            strcmp(arguments[count], "BROKERS") == 0 ? broker->kafka.brokers : arguments[count];
    words[count] = NULL;
    return run(words);
}

static uint32_t partitions_of(const struct broker *broker, const char *topic)
{
    struct mr_kafka_admin *admin;
    bool embedded;
    uint32_t count = 0;
    assert_int_equal(mr_kafka_admin_open(&admin, &broker->kafka, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(admin, 5000, &embedded, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_partitions(admin, topic, 5000, &count, NULL), MR_OK);
    mr_kafka_admin_close(admin);
    return count;
}

static void clients_create_no_topics(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    static const char *const commands[][16] = {
        {"millrace", "tail", "--brokers", "BROKERS", "--prefix", "typo", "--timeout", "1s", NULL},
        {"millrace", "cancel", "--brokers", "BROKERS", "--prefix", "typo", "id", NULL},
        {"millrace", "send", "--brokers", "BROKERS", "--prefix", "typo", "hello", NULL},
        {"millrace", "send", "--brokers", "BROKERS", "--prefix", "typo", "--no-wait", "hello",
         NULL},
        {"millrace", "cancel", "--brokers", "BROKERS", "--cancel-topic", "typo.none", "id", NULL},
    };
    static const char *const topics[] = {"typo.requests", "typo.tokens", "typo.results",
                                         "typo.cancel",   "typo.dlq",    "typo.none"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_int_equal(run_with(&broker, commands[i]), MR_EXIT_FAILED);
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        assert_int_equal(partitions_of(&broker, topics[i]), 0);
    close_broker(&broker);
}

#define MODEL TINY_MODEL

/* Runs a command with these bytes on stdin; fills out with its stdout as a text. */
static int run_piped(const char *const *arguments, const char *in, size_t in_length, char *out,
                     size_t out_bytes)
{
    int ends[2], old_in = dup(STDIN_FILENO), old_out = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    assert_true(old_in >= 0 && old_out >= 0 && file && pipe(ends) == 0);
    assert_int_equal(write(ends[1], in, in_length), in_length);
    close(ends[1]);
    fflush(stdout);
    dup2(ends[0], STDIN_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    close(ends[0]);
    int code = run(arguments);
    fflush(stdout);
    dup2(old_in, STDIN_FILENO);
    dup2(old_out, STDOUT_FILENO);
    close(old_in);
    close(old_out);
    rewind(file);
    out[fread(out, 1, out_bytes - 1, file)] = '\0';
    fclose(file);
    return code;
}

static void has(const char *out, const char *text)
{
    if (!strstr(out, text)) fail_msg("no \"%s\" in: %s", text, out);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_chat_is_rendered_and_tokenized(void **state)
{
    (void)state;
    struct scratch scratch;
    char chat[1024], template[1024], out[4096], ids[4096];
    scratch_open(&scratch);
    snprintf(chat, sizeof chat, "%s/chat.json", scratch.folder);
    snprintf(template, sizeof template, "%s/template.jinja", scratch.folder);
    write_file(chat,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[{\"n\":1}]}");
    write_file(template, "<{{ messages[0].content }} {{ tools | tojson }}>");
    const char *const tokenize[] = {"millrace", "tokenize", "--model",         MODEL,    "--chat",
                                    chat,       "--json",   "--chat-template", template, NULL};
    assert_int_equal(run_piped(tokenize, "", 0, out, sizeof out), MR_EXIT_DONE);
    has(out, "{\"text\":\"<hi [{\\\"n\\\": 1}]>\",\"ids\":[");
    const char *const plain[] = {"millrace", "tokenize",         "--model",           MODEL,
                                 "--json",   "--no-add-special", "<hi [{\"n\": 1}]>", NULL};
    assert_int_equal(run_piped(plain, "", 0, ids, sizeof ids), MR_EXIT_DONE);
    has(out, ids + 1); /* "ids" and "tokens" are the same */
    write_file(template, "a\n{{ 1 | nofilter }}");
    assert_int_equal(run_piped(tokenize, "", 0, out, sizeof out), MR_EXIT_MODEL);
    write_file(chat, "{\"prompt\":\"x\"}");
    write_file(template, "x");
    assert_int_not_equal(run_piped(tokenize, "", 0, out, sizeof out), MR_EXIT_DONE);
    scratch_close(&scratch);
}

static void all_bytes_of_stdin_are_tokenized(void **state)
{
    (void)state;
    static const char *const tokenize[] = {"millrace", "tokenize", "--model", MODEL, NULL};
    char whole[512], before[512], again[512];
    assert_int_equal(run_piped(tokenize, "a\0b", 3, whole, sizeof whole), MR_EXIT_DONE);
    assert_int_equal(run_piped(tokenize, "a", 1, before, sizeof before), MR_EXIT_DONE);
    assert_int_equal(run_piped(tokenize, "a\0b", 3, again, sizeof again), MR_EXIT_DONE);
    assert_string_not_equal(whole, before);
    assert_string_equal(whole, again);
}

/* Every line is one JSON object; the last one is the result. */
static void the_demo_prints_records_as_json(void **state)
{
    (void)state;
    static const char *const demo[] = {"millrace", "demo", "--model", MODEL, "--json", "hi", NULL};
    static char out[1 << 20];
    size_t lines = 0;
    assert_int_equal(run_piped(demo, "", 0, out, sizeof out), MR_EXIT_DONE);
    for (const char *line = out; *line; lines++) {
        size_t length = strcspn(line, "\n");
        if (line[0] != '{' || line[length - 1] != '}' || !strstr(line, "\"demo-1\""))
            fail_msg("%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
    assert_true(lines >= 1);
}

/* Leading FIELD=VALUE words are fields of every request, as for send; later ones are prompts. */
static void the_demo_takes_fields(void **state)
{
    (void)state;
    static const char *const demo[] = {
        "millrace",        "demo", "--model",      MODEL, "--json", "max_tokens=2", "stream=false",
        "ignore_eos=true", "hi",   "max_tokens=3", NULL};
    static char out[1 << 16];
    assert_int_equal(run_piped(demo, "", 0, out, sizeof out), MR_EXIT_DONE);
    const char *first = strstr(out, "\"completion_tokens\":2");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"completion_tokens\":2"));
    assert_non_null(strstr(out, "\"demo-2\""));
    assert_null(strstr(out, "\"demo-3\""));
    static const char *const plain[] = {"millrace",        "demo", "--model", MODEL, "max_tokens=2",
                                        "ignore_eos=true", "hi",   NULL};
    assert_int_equal(run_piped(plain, "", 0, out, sizeof out), MR_EXIT_DONE);
    assert_non_null(strstr(out, "the answer was cut after max_tokens"));
}

static void bench_of_the_engine_refuses_options_that_it_ignores(void **state)
{
    (void)state;
    static const char *const more[][2] = {{"--rate", "3"},          {"--concurrency", "3"},
                                          {"--warmup", "2"},        {"--requests", "9"},
                                          {"--prompt-tokens", "9"}, {"--batch", "4096"},
                                          {"--report", "none"},     {"--objective", "ttft-p99=1s"}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const char *const bench[] = {"millrace", "bench",    "--engine", "--model",
                                     MODEL,      more[i][0], more[i][1], NULL};
        assert_int_equal(run(bench), MR_EXIT_USAGE);
    }
}

static void bench_of_the_engine_measures_one_batch(void **state)
{
    (void)state;
    static const char *const bench[] = {
        "millrace", "bench",           "--engine", "--model",
        MODEL,      "--batch",         "2",        "--prompt-tokens",
        "9",        "--output-tokens", "5",        "--repetitions",
        "1",        "--kv-memory",     "64MiB",    NULL};
    static char out[1 << 16];
    assert_int_equal(run_piped(bench, "", 0, out, sizeof out), MR_EXIT_DONE);
    assert_non_null(strstr(out, "prefill 9"));
    assert_non_null(strstr(out, "decode 2"));
    assert_null(strstr(out, "mix"));
}

/* Runs `check` with a model and more flags, up to a NULL; fills out with what it printed. */
static int run_check(const struct broker *broker, const char *model, const char *const *more,
                     char *out, size_t out_bytes)
{
    const char *words[24] = {"millrace", "check", "--brokers", broker->kafka.brokers,
                             "--model",  model,   "--http",    "off"};
    size_t count = 8;
    while (more && *more)
        words[count++] = *more++;
    return run_piped(words, "", 0, out, out_bytes);
}

static void check_of_a_model_alone_needs_no_broker(void **state)
{
    (void)state;
    static const char *const model[] = {"millrace", "check", "--model", MODEL,
                                        "--http",   "off",   NULL};
    static const char *const absent[] = {"millrace", "check", "--model", "/none",
                                         "--http",   "off",   NULL};
    char out[8192];
    assert_int_equal(run_piped(model, "", 0, out, sizeof out), MR_EXIT_DONE);
    has(out, "ok    model    grouped_tied: family llama, ");
    has(out, "note  broker   not checked: no --brokers are given");
    assert_null(strstr(out, "right"));
    assert_int_equal(run_piped(absent, "", 0, out, sizeof out), MR_EXIT_MODEL);
}

static void check_refuses_what_serve_refuses(void **state)
{
    (void)state;
    struct broker broker;
    struct scratch copy;
    char out[8192];
    open_broker(&broker);
    assert_int_equal(run_check(&broker, MODEL, NULL, out, sizeof out), MR_EXIT_DONE);
    has(out, "ok    model    grouped_tied: family llama, ");
    has(out, "note  topic    millrace.requests does not exist");
    model_copy_open(&copy, "tokenizer_config.json", "{% endfor %}", "{% endfro %}");
    assert_int_equal(run_check(&broker, copy.folder, NULL, out, sizeof out), MR_EXIT_MODEL);
    has(out, "FAIL  model    chat template");
    scratch_close(&copy);
    model_copy_open(&copy, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    assert_int_equal(run_check(&broker, copy.folder, NULL, out, sizeof out), MR_EXIT_MODEL);
    has(out, "is missing");
    scratch_close(&copy);
    static const char *const device[] = {"--device", "cuda", NULL};
    assert_int_equal(run_check(&broker, MODEL, device, out, sizeof out), MR_EXIT_USAGE);
    has(out, "FAIL  options");
    static const char *const memory[] = {"--kv-memory", "900TB", NULL};
    assert_int_equal(run_check(&broker, MODEL, memory, out, sizeof out), MR_EXIT_MODEL);
    has(out, "FAIL  memory");
    static const char *const state_dir[] = {"--state-dir", "/none/deeper", NULL};
    assert_int_equal(run_check(&broker, MODEL, state_dir, out, sizeof out), MR_EXIT_USAGE);
    has(out, "FAIL  options  --state-dir /none/deeper: the folder /none does not exist");
    static const char *const owned[] = {"--kafka", "isolation.level=x", NULL};
    assert_int_equal(run_check(&broker, MODEL, owned, out, sizeof out), MR_EXIT_USAGE);
    has(out, "FAIL  broker   --kafka: isolation.level cannot be set");
    close_broker(&broker);
}

static void check_looks_for_redis(void **state)
{
    (void)state;
    struct broker broker;
    struct fake_redis *redis = fake_redis_start(0);
    char out[8192], url[64];
    open_broker(&broker);
    snprintf(url, sizeof url, "redis://:hidden@127.0.0.1:%u", redis->port);
    const char *const away[] = {"--redis", "redis://127.0.0.1:1", "--timeout", "5s", NULL};
    const char *const file[] = {"--redis", url, "--redis-key-file", "/none", NULL};
    assert_int_equal(run_check(&broker, MODEL, away, out, sizeof out), MR_EXIT_UNREACHABLE);
    has(out, "FAIL  redis    Redis: ");
    assert_int_equal(run_check(&broker, MODEL, file, out, sizeof out), MR_EXIT_USAGE);
    has(out, "FAIL  options  /none");
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", redis->port);
    const char *const here[] = {"--redis", url, NULL};
    assert_int_equal(run_check(&broker, MODEL, here, out, sizeof out), MR_EXIT_DONE);
    has(out, "ok    redis    redis://127.0.0.1:");
    fake_redis_stop(redis);
    close_broker(&broker);
}

static void check_prints_json(void **state)
{
    (void)state;
    struct broker broker;
    char out[8192];
    static const char *const json[] = {"--json", NULL};
    open_broker(&broker);
    assert_int_equal(run_check(&broker, "none.gguf", json, out, sizeof out), MR_EXIT_MODEL);
    has(out, "{\"verdict\":\"ok\",\"what\":\"options\",\"text\":\"valid\"}\n");
    has(out, "{\"verdict\":\"FAIL\",\"what\":\"model\",\"text\":\"none.gguf: ");
    has(out, "{\"verdict\":\"note\",\"what\":\"topic\",");
    close_broker(&broker);
}

static void topics_are_created_and_checked(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    static const char *const commands[][16] = {
        {"millrace", "topics", "check", "--brokers", "BROKERS", NULL},
        {"millrace", "topics", "create", "--brokers", "BROKERS", "--reply-topic", "answers", NULL},
        {"millrace", "topics", "create", "--brokers", "BROKERS", "--json", NULL},
        {"millrace", "topics", "mend", "--brokers", "BROKERS", NULL}};
    assert_int_equal(run_with(&broker, commands[0]), MR_EXIT_DONE);
    assert_int_equal(partitions_of(&broker, "millrace.requests"), 0);
    assert_int_equal(run_with(&broker, commands[1]), MR_EXIT_DONE);
    static const char *const topics[] = {"millrace.requests", "millrace.tokens", "millrace.results",
                                         "millrace.cancel",   "millrace.dlq",    "answers"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        assert_true(partitions_of(&broker, topics[i]) > 0);
    assert_int_equal(run_with(&broker, commands[2]), MR_EXIT_DONE);
    assert_int_equal(run_with(&broker, commands[3]), MR_EXIT_USAGE);
    close_broker(&broker);
}

static void records_are_replayed_to_existing_topics_only(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    add_topic(&broker, "millrace.requests", 1);
    static const char *const commands[][16] = {
        {"millrace", "send", "--brokers", "BROKERS", "--no-wait", "hello", NULL},
        {"millrace", "replay", "--brokers", "BROKERS", "--dry-run", "millrace.requests", NULL},
        {"millrace", "replay", "--brokers", "BROKERS", "millrace.requests", NULL},
        {"millrace", "replay", "--brokers", "BROKERS", "--to", "typo", "millrace.requests", NULL},
        {"millrace", "replay", "--brokers", "BROKERS", "typo", NULL}};
    static const int codes[] = {MR_EXIT_DONE, MR_EXIT_DONE, MR_EXIT_DONE, MR_EXIT_FAILED,
                                MR_EXIT_FAILED};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_int_equal(run_with(&broker, commands[i]), codes[i]);
    assert_int_equal(partitions_of(&broker, "typo"), 0);
    close_broker(&broker);
}

/* Producers choose the keys: a key must not control the operator's terminal. */
static void keys_are_escaped_when_they_are_printed(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    open_broker(&broker);
    add_topic(&broker, "millrace.dlq", 1);
    open_producing(&producing, &broker);
    const struct mr_kafka_record record = {
        .topic = "millrace.dlq", .partition = 0, .key = {"k\x1b[2J\n", 6}, .value = {"{}", 2}};
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(producing.out, 10000), MR_OK);
    char text[512] = "";
    FILE *file = tmpfile();
    fflush(stdout);
    int old = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    int code = run_with(&broker, (const char *const[]){"millrace", "replay", "--brokers", "BROKERS",
                                                       "--dry-run", "millrace.dlq", NULL});
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_int_equal(code, MR_EXIT_DONE);
    assert_null(memchr(text, '\x1b', length));
    has(text, "millrace.dlq/0/0 k\\x1b[2J\\n -> millrace.dlq\n");
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

/* At a hundredth of the pace the second record would be due after two minutes. */
static void replay_gives_up_after_its_timeout(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    add_topic(&broker, "millrace.requests", 1);
    static const char *const send[] = {"millrace",  "send",  "--brokers", "BROKERS",
                                       "--no-wait", "hello", NULL};
    static const char *const replay[] = {"millrace",          "replay", "--brokers", "BROKERS",
                                         "--speed",           "0.01",   "--timeout", "1s",
                                         "millrace.requests", NULL};
    assert_int_equal(run_with(&broker, send), MR_EXIT_DONE);
    usleep(1200000);
    assert_int_equal(run_with(&broker, send), MR_EXIT_DONE);
    assert_int_equal(run_with(&broker, replay), MR_EXIT_FAILED);
    close_broker(&broker);
}

static void the_demo_takes_64_prompts(void **state)
{
    (void)state;
    const char *words[2 + 65 + 1] = {"millrace", "demo"};
    for (size_t i = 2; i < 2 + 65; i++)
        words[i] = "hi";
    assert_int_equal(run(words), MR_EXIT_USAGE);
}

static void a_client_command_talks_to_the_broker_it_is_given(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    add_topic(&broker, "millrace.cancel", 1);
    add_topic(&broker, "millrace.requests", 1);
    const char *const cancel[] = {"millrace",           "cancel", "--brokers",
                                  broker.kafka.brokers, "id",     NULL};
    const char *const send[] = {"millrace",     "send",  "--brokers", broker.kafka.brokers,
                                "--wait=false", "hello", NULL};
    assert_int_equal(run(cancel), MR_EXIT_DONE);
    assert_int_equal(run(send), MR_EXIT_DONE);
    close_broker(&broker);
}

/* Standard error is a file from _begin to _end, which fills text with its contents. */
struct captured_errors {
    FILE *file;
    int terminal;
    char text[1024];
};

static void captured_errors_begin(struct captured_errors *captured)
{
    captured->terminal = dup(STDERR_FILENO);
    captured->file = tmpfile();
    assert_non_null(captured->file);
    dup2(fileno(captured->file), STDERR_FILENO);
}

static void captured_errors_end(struct captured_errors *captured)
{
    dup2(captured->terminal, STDERR_FILENO);
    close(captured->terminal);
    const ssize_t length =
        pread(fileno(captured->file), captured->text, sizeof captured->text - 1, 0);
    fclose(captured->file);
    assert_true(length >= 0);
    captured->text[length] = '\0';
}

static void expect_refusal(const char *const *arguments, const char *want)
{
    const struct mr_error err = {.status = MR_BAD_CONFIG, .detail = "--x: no such option"};
    struct captured_errors captured;
    int count = 0;
    while (arguments[count])
        count++;
    captured_errors_begin(&captured);
    int code = mr_cli_refuse(count, (char *const *)(uintptr_t)arguments, &err);
    captured_errors_end(&captured);
    assert_int_equal(code, MR_EXIT_USAGE);
    assert_non_null(strstr(captured.text, want));
}

static void send_warns_of_a_misspelt_field(void **state)
{
    (void)state;
    struct broker broker;
    struct captured_errors captured;
    open_broker(&broker);
    add_topic(&broker, "millrace.requests", 1);
    static const char *const fields[] = {"temprature=0", "temperature=0", "max_tokens=none"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (int packed = 0; packed < 2; packed++) {
            const char *const send[] = {"millrace",  "send",
                                        "--brokers", broker.kafka.brokers,
                                        "--no-wait", packed ? "--msgpack" : "--no-msgpack",
                                        fields[i],   "hello",
                                        NULL};
            captured_errors_begin(&captured);
            int code = run(send);
            captured_errors_end(&captured);
            assert_int_equal(code, MR_EXIT_DONE);
            if (i == 0)
                has(captured.text,
                    "millrace: warning: unknown field temprature, which a topic that is "
                    "not strict ignores; did you mean temperature?");
            else
                assert_string_equal(captured.text, ""); /* a worker answers a wrong value */
        }
    close_broker(&broker);
}

static void a_worker_without_a_configuration_says_so_in_its_log(void **state)
{
    (void)state;
    static const char json[] = "\"level\":\"error\",\"msg\":\"--x: no such option\"}";
    static const char text[] = "millrace: --x: no such option\n";
    expect_refusal((const char *const[]){"millrace", "serve", "--x", NULL}, json);
    expect_refusal((const char *const[]){"millrace", "send", "--x", NULL}, text);
    expect_refusal((const char *const[]){"millrace", "serve", "--log-format", "text", NULL}, text);
    expect_refusal((const char *const[]){"millrace", "serve", "--log-format=text", "--log-format",
                                         "json", NULL},
                   json);
    expect_refusal((const char *const[]){"millrace", NULL}, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_end_with_the_code_of_what_happened),
        cmocka_unit_test(a_worker_without_a_configuration_says_so_in_its_log),
        cmocka_unit_test(keys_are_escaped_when_they_are_printed),
        cmocka_unit_test(replay_gives_up_after_its_timeout),
        cmocka_unit_test(the_demo_takes_64_prompts),
        cmocka_unit_test(a_client_command_talks_to_the_broker_it_is_given),
        cmocka_unit_test(clients_create_no_topics),
        cmocka_unit_test(send_warns_of_a_misspelt_field),
        cmocka_unit_test(records_are_replayed_to_existing_topics_only),
        cmocka_unit_test(topics_are_created_and_checked),
        cmocka_unit_test(all_bytes_of_stdin_are_tokenized),
        cmocka_unit_test(a_chat_is_rendered_and_tokenized),
        cmocka_unit_test(the_demo_prints_records_as_json),
        cmocka_unit_test(the_demo_takes_fields),
        cmocka_unit_test(bench_of_the_engine_refuses_options_that_it_ignores),
        cmocka_unit_test(bench_of_the_engine_measures_one_batch),
        cmocka_unit_test(check_of_a_model_alone_needs_no_broker),
        cmocka_unit_test(check_refuses_what_serve_refuses),
        cmocka_unit_test(check_looks_for_redis),
        cmocka_unit_test(check_prints_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
