#include "worker/config/options.h"

#include "worker/config/option_apply.h"
#include "worker/config/options_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WORDS_MAX 32

static struct mr_error last;

/* Words and variables are separated by '|'; "": none. */
static size_t split(char *text, char **words, size_t count)
{
    while (*text) {
        size_t length = strcspn(text, "|");
        words[count++] = text;
        text += length;
        if (*text) *text++ = '\0';
    }
    words[count] = NULL;
    return count;
}

static struct mr_config *parse(const char *flags, const char *environment)
{
    static char flag_text[2048], environment_text[2048];
    char *words[WORDS_MAX] = {flag_text}, *variables[WORDS_MAX];
    static char program[] = "millrace";
    words[0] = program;
    snprintf(flag_text, sizeof flag_text, "%s", flags);
    snprintf(environment_text, sizeof environment_text, "%s", environment);
    size_t count = split(flag_text, words, 1);
    split(environment_text, variables, 0);
    struct mr_config *config;
    last = (struct mr_error){0};
    enum mr_status status = mr_config_create(&config, (int)count, words, variables, &last);
    assert_int_equal(status == MR_OK, config != NULL);
    if (!config) assert_int_equal(status, last.status);
    return config;
}

/* Parsing must fail with an error that contains the text. */
static void refused(const char *flags, const char *environment, const char *sentence)
{
    struct mr_config *config = parse(flags, environment);
    if (config) fail_msg("%s %s was accepted", flags, environment);
    assert_int_equal(last.status, MR_BAD_CONFIG);
    if (!strstr(last.detail, sentence)) fail_msg("%s: \"%s\"", flags, last.detail);
}

static char file_path[64];

static void write_file(const char *text)
{
    memcpy(file_path, "/tmp/millrace-options-XXXXXX", sizeof "/tmp/millrace-options-XXXXXX");
    int fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (long)strlen(text));
    close(fd);
}

static struct mr_config *parse_with_file(const char *text, const char *flags,
                                         const char *environment)
{
    char all[2048];
    write_file(text);
    snprintf(all, sizeof all, "%s|--config|%s", flags, file_path);
    struct mr_config *config = parse(all, environment);
    unlink(file_path);
    return config;
}

#define SERVE "serve|--model|m.gguf|--brokers|b:9092"

static void defaults_are_complete(void **state)
{
    (void)state;
    struct mr_config *config = parse(SERVE, "");
    assert_int_equal(config->command, MR_COMMAND_SERVE);
    assert_string_equal(config->model, "m.gguf");
    assert_string_equal(config->model_name, "m");
    assert_string_equal(config->device, "cpu");
    assert_string_equal(config->dtype, "auto");
    assert_true(config->kv_memory_bytes == (uint64_t)2 << 30);
    assert_int_equal(config->max_sequences, 64);
    assert_int_equal(config->chunk_tokens, 512);
    assert_int_equal(config->default_max_tokens, 256);
    assert_true(config->max_record_bytes == 1 << 20);
    assert_string_equal(config->group, "millrace");
    assert_string_equal(config->tokens_topic, "millrace.tokens");
    assert_string_equal(config->results_topic, "millrace.results");
    assert_string_equal(config->cancel_topic, "millrace.cancel");
    assert_string_equal(config->dlq_topic, "millrace.dlq");
    assert_int_equal(config->request_topic_count, 1);
    assert_string_equal(config->request_topics[0].name, "millrace.requests");
    assert_string_equal(config->request_topics[0].tenant, "default");
    assert_string_equal(config->http, "127.0.0.1:9464");
    assert_true(config->drain_timeout_ns == 25000000000u);
    assert_int_equal(config->delivery, MR_DELIVERY_AT_LEAST_ONCE);
    assert_true(config->prefix_cache && config->wait && !config->deterministic);
    assert_true(config->worker_id[0] != '\0');
    assert_string_equal(config->redis, "");
    mr_config_destroy(config);
}

static void flag_beats_environment_beats_file_beats_default(void **state)
{
    (void)state;
    const char *file = "threads: 3\nprefix: file\ngroup: file\n";
    struct mr_config *config =
        parse_with_file(file, SERVE "|--threads|7", "MILLRACE_THREADS=5|MILLRACE_PREFIX=env|X=y");
    assert_int_equal(config->threads, 7);
    assert_string_equal(config->prefix, "env");
    assert_string_equal(config->group, "file");
    assert_string_equal(config->tokens_topic, "env.tokens");
    assert_int_equal(config->max_sequences, 64);
    assert_int_equal(mr_option_origin(config, mr_option_find("threads")), MR_ORIGIN_FLAG);
    assert_int_equal(mr_option_origin(config, mr_option_find("prefix")), MR_ORIGIN_ENVIRONMENT);
    assert_int_equal(mr_option_origin(config, mr_option_find("group")), MR_ORIGIN_FILE);
    assert_int_equal(mr_option_origin(config, mr_option_find("max_sequences")), MR_ORIGIN_DEFAULT);
    mr_config_destroy(config);
}

static void the_file_may_come_from_the_environment(void **state)
{
    (void)state;
    char variable[128];
    write_file("model: /models/a.gguf\nbrokers: x:1\nkv_memory: 512MiB\ndeterministic: yes\n");
    snprintf(variable, sizeof variable, "MILLRACE_CONFIG=%s", file_path);
    struct mr_config *config = parse("serve", variable);
    unlink(file_path);
    assert_non_null(config);
    assert_string_equal(config->model_name, "a");
    assert_true(config->kv_memory_bytes == 512u << 20 && config->deterministic);
    mr_config_destroy(config);
}

static void words_behind_two_dashes_are_counted(void **state)
{
    (void)state;
    struct mr_config *config = parse("send|--brokers|b:1|a=1|--|x=5,|--id", "");
    assert_int_equal(config->argument_count, 3);
    assert_int_equal(config->plain_count, 2);
    assert_string_equal(config->arguments[0], "a=1");
    assert_string_equal(config->arguments[2], "--id");
    mr_config_destroy(config);
    config = parse("send|--brokers|b:1|a=1|b", "");
    assert_int_equal(config->plain_count, 0);
    mr_config_destroy(config);
}

static void lists_are_appended_and_a_stronger_origin_replaces_them(void **state)
{
    (void)state;
    const char *file = "kafka:\n  security.protocol: SASL_SSL\n  sasl.username: u\n"
                       "reply-topic: [a, b]\nrequests-topic:\n  - fast,priority=5\n  - slow\n";
    struct mr_config *config = parse_with_file(file, SERVE, "MILLRACE_REPLY_TOPIC=c;d;e");
    assert_int_equal(config->kafka.count, 2);
    assert_string_equal(config->kafka.values[1], "sasl.username=u");
    assert_int_equal(config->reply_topics.count, 3);
    assert_string_equal(config->reply_topics.values[0], "c");
    assert_int_equal(config->request_topic_count, 2);
    assert_int_equal(config->request_topics[0].priority, 5);
    mr_config_destroy(config);
    config = parse_with_file(file, SERVE "|--kafka|a=1|--kafka=b=2=3|--reply-topic|z", "");
    assert_int_equal(config->kafka.count, 2);
    assert_string_equal(config->kafka.values[1], "b=2=3");
    assert_int_equal(config->reply_topics.count, 1);
    mr_config_destroy(config);
}

static void request_topics_carry_their_settings(void **state)
{
    (void)state;
    struct mr_config *config =
        parse(SERVE "|--requests-topic|a.b,priority=-10,tenant=acme,strict|--requests-topic|c", "");
    const struct mr_request_topic *topics = config->request_topics;
    assert_string_equal(topics[0].name, "a.b");
    assert_string_equal(topics[0].tenant, "acme");
    assert_true(topics[0].priority == -10 && topics[0].strict);
    assert_string_equal(topics[1].tenant, "default");
    assert_true(topics[1].priority == 0 && !topics[1].strict);
    mr_config_destroy(config);
    refused(SERVE "|--requests-topic|a,priority=101", "", "is none of priority=-100..100");
    refused(SERVE "|--requests-topic|a,colour=red", "",
            "--requests-topic a,colour=red: colour=red is none of");
    refused(SERVE "|--requests-topic|a,tenant=", "", "tenant= is none of");
    refused(SERVE "|--requests-topic|a|--requests-topic|a,strict", "", "given twice");
    refused(SERVE "|--requests-topic|a/b", "", "not a topic name");
    refused(SERVE "|--prefix|a b", "", "not a topic name");
}

static void switches_can_be_turned_off(void **state)
{
    (void)state;
    struct mr_config *config =
        parse("send|--brokers|b:1|--no-wait|--msgpack|--stream=false|hello|world", "");
    assert_true(!config->wait && config->msgpack && !config->stream);
    assert_int_equal(config->argument_count, 2);
    assert_string_equal(config->arguments[1], "world");
    mr_config_destroy(config);
    config = parse(SERVE "|--http|off|--no-prefix-cache", "");
    assert_string_equal(config->http, "");
    assert_false(config->prefix_cache);
    mr_config_destroy(config);
}

static void arguments_mix_with_flags_and_end_with_two_dashes(void **state)
{
    (void)state;
    struct mr_config *config = parse("send|n=2|--brokers|b:1|a prompt|--json|--|--not-a-flag", "");
    assert_int_equal(config->argument_count, 3);
    assert_string_equal(config->arguments[0], "n=2");
    assert_string_equal(config->arguments[2], "--not-a-flag");
    assert_true(config->json);
    mr_config_destroy(config);
}

static void unknown_names_are_errors_with_a_hint(void **state)
{
    (void)state;
    refused(SERVE "|--kv-memry|1GiB", "", "unknown option --kv-memry: did you mean --kv-memory?");
    refused(SERVE "|--modle=x", "", "unknown option --modle: did you mean --model?");
    refused(SERVE "|--no-reusme", "", "unknown option --no-reusme: did you mean --no-resume?");
    refused(SERVE "|--xyzzyplugh", "", "unknown option --xyzzyplugh; millrace serve --help");
    refused(SERVE "|-q", "", "unknown flag -q");
    refused(SERVE "|--kv-mem|1GiB", "", "unknown option --kv-mem: did you mean --kv-memory?");
    refused(SERVE "|--no-resu", "", "unknown option --no-resu: did you mean --no-resume?");
    refused(SERVE "|--rate|5", "", "serve takes no option --rate");
    refused(SERVE "|--no-decode", "", "serve takes no option --no-decode");
    refused("send|--brokers|b:1|--no-wait=1|x", "", "--no-wait takes no value");
    refused("serv", "", "did you mean serve?");
    refused("frobnicate", "", "unknown command frobnicate");
    write_file("max-sequence: 5\n");
    char flags[256];
    snprintf(flags, sizeof flags, SERVE "|--config|%s", file_path);
    refused(flags, "", "did you mean max-sequences?");
    assert_non_null(strstr(last.detail, "line 1"));
    unlink(file_path);
}

static void a_misspelled_variable_is_an_error_with_a_hint(void **state)
{
    (void)state;
    refused(SERVE, "MILLRACE_MODLE=x",
            "unknown environment variable MILLRACE_MODLE: did you mean MILLRACE_MODEL?");
    refused(SERVE, "MILLRACE_KV_MEMRY=", "did you mean MILLRACE_KV_MEMORY?");
    refused(SERVE, "MILLRACE_XYZZYPLUGH=1", "unknown environment variable MILLRACE_XYZZYPLUGH");
    refused(SERVE, "MILLRACE_PORT=9464", "unknown environment variable MILLRACE_PORT");
    refused(SERVE, "MILLRACE_HELP=1", "--help can be given on the command line only");
    refused("send|--brokers|b:1|x", "MILLRACE_TEMPERATUR=1", "MILLRACE_TEMPERATUR");
}

static void variables_of_others_are_not_options(void **state)
{
    (void)state;
    struct mr_config *config =
        parse(SERVE "|--kafka|sasl.password=env:MILLRACE_SECRET",
              "MILLRACE_SERVICE_HOST=10.0.0.1|MILLRACE_TOOLS=/x|MILLRACE_PORT=tcp://10.0.0.1:9464|"
              "MILLRACE_PORT_9464_TCP=tcp://x|MILLRACE_REDIS=|MILLRACE_CACHE=/var/cache");
    assert_null(config);
    assert_non_null(strstr(last.detail, "MILLRACE_SECRET is not set"));
    assert_int_equal(setenv("MILLRACE_SECRET", "s", 1), 0);
    config = parse(SERVE "|--kafka|sasl.password=env:MILLRACE_SECRET",
                   "MILLRACE_SERVICE_HOST=10.0.0.1|MILLRACE_TOOLS=/x|"
                   "MILLRACE_PORT=tcp://10.0.0.1:9464|MILLRACE_PORT_9464_TCP=tcp://x|"
                   "MILLRACE_REDIS=|MILLRACE_CACHE=/var/cache|MILLRACE_SECRET=s");
    unsetenv("MILLRACE_SECRET");
    if (!config) fail_msg("%s", last.detail);
    assert_int_equal(config->ignored_variables.count, 3);
    assert_string_equal(config->ignored_variables.values[0], "MILLRACE_SERVICE_HOST");
    mr_config_destroy(config);
}

/* The default of the KV pool depends on the memory of the process; an explicit value does not. */
static void a_given_kv_memory_is_told_from_the_default(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *environment;
        bool given;
    } cases[] = {{SERVE, "", false},
                 {SERVE "|--kv-memory|2GiB", "", true},
                 {SERVE, "MILLRACE_KV_MEMORY=2GiB", true},
                 {SERVE, "MILLRACE_KV_MEMORY=", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_config *config = parse(cases[i].flags, cases[i].environment);
        assert_int_equal(config->kv_memory_given, cases[i].given);
        mr_config_destroy(config);
    }
}

static void the_name_of_an_option_is_never_a_value(void **state)
{
    (void)state;
    refused("send|--brokers|--http|X", "", "--brokers needs a value: --http is an option");
    refused(SERVE "|--group|--strict", "", "write --group=--strict");
    refused(SERVE "|--group|-h", "", "--group needs a value");
    refused(SERVE "|--kafka|--", "", "--kafka needs a value");
    struct mr_config *config = parse(SERVE "|--group=--strict|--chunk-tokens|-1|--worker-id|-", "");
    assert_string_equal(config->group, "--strict");
    assert_string_equal(config->worker_id, "-");
    assert_int_equal(config->chunk_tokens, -1);
    mr_config_destroy(config);
}

static void a_reply_topic_may_be_a_prefix(void **state)
{
    (void)state;
    struct mr_config *config =
        parse(SERVE "|--reply-topic|team.*|--reply-topic|a|--reply-topic|..*", "");
    if (!config) fail_msg("%s", last.detail);
    assert_int_equal(config->reply_topics.count, 3);
    assert_string_equal(config->reply_topics.values[0], "team.*");
    mr_config_destroy(config);
    refused(SERVE "|--reply-topic|*", "", "would allow every topic");
    refused(SERVE "|--reply-topic|te*am", "", "not a topic name");
    refused(SERVE "|--reply-topic|te/*", "", "not a topic name");
    refused(SERVE "|--reply-topic=", "", "not a topic name");
    refused(SERVE "|--requests-topic|team.*", "", "not a topic name");
}

static void values_are_checked(void **state)
{
    (void)state;
    refused(SERVE "|--threads|many", "", "--threads many: is not a whole number");
    refused(SERVE "|--threads|257", "", "--threads 257: must not be above 256");
    refused(SERVE "|--kv-memory|1k", "", "--kv-memory 1k: must not be below 1MiB");
    refused(SERVE "|--kv-memory|lots", "", "is not a size such as");
    refused(SERVE "|--drain-timeout|25", "", "is not a time such as");
    refused(SERVE "|--dtype|fp64", "", "auto|fp32|bf16");
    refused(SERVE "|--delivery|maybe", "", "at-least-once|exactly-once");
    refused(SERVE "|--device|tpu", "", "--device tpu: is none of cpu, cuda, cuda:N");
    refused(SERVE "|--http|9464", "", "--http 9464: is neither HOST:PORT");
    refused(SERVE "|--kafka|novalue", "", "--kafka novalue: is not NAME=VALUE");
    refused(SERVE "|--deterministic=perhaps", "",
            "--deterministic perhaps: is neither true nor false");
    refused(SERVE "|--threads", "", "needs a value");
    refused(SERVE, "MILLRACE_THREADS=x", "MILLRACE_THREADS=x: is not a whole number");
    refused("bench|--rate|-1|--brokers|b:1", "", "--rate -1: must not be below 0");
}

static void a_missing_option_or_argument_is_named(void **state)
{
    (void)state;
    refused("serve|--brokers|b:1", "", "serve needs --model");
    refused("serve|--model|m", "", "serve needs --brokers");
    refused("send|hi", "", "send needs --brokers");
    refused("bench", "", "bench needs --brokers");
    refused("bench|--engine", "", "bench needs --model");
    refused("cancel|--brokers|b:1", "", "usage: millrace cancel");
    refused(SERVE "|extra", "", "serve takes no argument extra");
}

static void help_and_version_require_no_option(void **state)
{
    (void)state;
    struct mr_config *config = parse("serve|--help", "MILLRACE_NONSENSE=1");
    assert_true(config->help && config->command == MR_COMMAND_SERVE);
    mr_config_destroy(config);
    config = parse("", "");
    assert_int_equal(config->command, MR_COMMAND_HELP);
    mr_config_destroy(config);
    config = parse("--version", "MILLRACE_NONSENSE=1|MILLRACE_THREADS=x");
    assert_int_equal(config->command, MR_COMMAND_VERSION);
    mr_config_destroy(config);
    refused("version|now", "", "version takes no argument now");
}

/* The output of --print-config; the caller frees it. */
static char *printed(const struct mr_config *config)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    mr_config_print(config, out);
    fclose(out);
    return text;
}

static void printing_shows_origins_and_hides_secrets(void **state)
{
    (void)state;
    struct mr_config *config =
        parse(SERVE "|--redis|redis://me:hunter2@r:6379/0|--kafka|sasl.password=hunter3|--kafka|"
                    "client.id=visible",
              "MILLRACE_KV_MEMORY=4GiB");
    char *text = printed(config);
    assert_null(strstr(text, "hunter"));
    assert_non_null(strstr(text, "redis://me:***@r:6379/0"));
    assert_non_null(strstr(text, "sasl.password=***"));
    assert_non_null(strstr(text, "client.id=visible"));
    assert_non_null(strstr(text, "4GiB"));
    assert_non_null(strstr(text, "# environment"));
    assert_non_null(strstr(text, "# flag"));
    assert_non_null(strstr(text, "# default"));
    free(text);
    mr_config_destroy(config);
}

/* The options of all commands except `serve` and `check`, which has those of `serve`. A command has
 * only the options that it uses. */
static const struct {
    enum mr_command command;
    const char *options;
} taken[] = {
    {MR_COMMAND_HELP, " help "},
    {MR_COMMAND_VERSION, " help "},
    {MR_COMMAND_MAN, " help "},
    {MR_COMMAND_COMPLETION, " help "},
    {MR_COMMAND_BROKER, " config print-config help partitions broker-count "},
    {MR_COMMAND_GATEWAY, " config print-config help brokers prefix requests-topic cancel-topic "
                         "reply-topic kafka max-record-bytes drain-timeout replicas log-format "
                         "log-level listen key-file reply-partition request-timeout connections "
                         "buffer-memory wait-for-workers cors-origin tls-cert tls-key "},
    {MR_COMMAND_SEND, " config print-config help brokers prefix requests-topic tokens-topic "
                      "results-topic kafka id msgpack json wait stream timeout "},
    {MR_COMMAND_BATCH,
     " config print-config help brokers prefix results-topic cancel-topic kafka max-record-bytes "
     "errors skip-invalid topic deadline cancel retry-errors concurrency "},
    {MR_COMMAND_TAIL, " config print-config help brokers prefix tokens-topic results-topic kafka "
                      "json timeout from-beginning "},
    {MR_COMMAND_CANCEL, " config print-config help brokers prefix cancel-topic kafka timeout "},
    {MR_COMMAND_TOP,
     " config print-config help brokers prefix cancel-topic kafka group json timeout "
     "http-port tenant interval once "},
    {MR_COMMAND_REPLAY, " config print-config help brokers prefix kafka timeout to since until "
                        "speed dry-run "},
    {MR_COMMAND_TOPICS, " config print-config help brokers prefix requests-topic tokens-topic "
                        "results-topic cancel-topic dlq-topic reply-topic kafka max-record-bytes "
                        "json timeout requests-partitions replicas "},
    {MR_COMMAND_TOKENIZE, " config print-config help model json decode add-special "
                          "parse-special chat chat-template "},
};

static void each_command_takes_the_options_that_it_uses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        for (size_t k = 0; k < mr_option_count; k++) {
            char word[64];
            snprintf(word, sizeof word, " %s ", mr_options[k].name);
            bool listed = strstr(taken[i].options, word) != NULL;
            if (listed != mr_option_is_of(&mr_options[k], taken[i].command))
                fail_msg("%s --%s", mr_command_name(taken[i].command), mr_options[k].name);
        }
    }
    for (size_t k = 0; k < mr_option_count; k++) {
        const struct mr_option *option = &mr_options[k];
        bool own = strcmp(option->name, "json") == 0 || strcmp(option->name, "timeout") == 0;
        if (mr_option_is_of(option, MR_COMMAND_CHECK) !=
            (mr_option_is_of(option, MR_COMMAND_SERVE) || own))
            fail_msg("check --%s", option->name);
    }
}

/* Each option with each command: accepted, or refused by name. */
static void every_flag_of_every_command_is_understood_or_refused(void **state)
{
    (void)state;
    for (unsigned command = 0; command < MR_COMMAND_COUNT; command++) {
        for (size_t i = 0; i < mr_option_count; i++) {
            const struct mr_option *option = &mr_options[i];
            char flags[128], sentence[128];
            const char *value = option->initial[0] ? option->initial : "x:1";
            const char *name = mr_command_name((enum mr_command)command);
            snprintf(flags, sizeof flags, "%s|--%s=%s|--help", name, option->name, value);
            if (!mr_option_is_of(option, command)) {
                snprintf(sentence, sizeof sentence, "%s takes no option --%s", name, option->name);
                refused(flags, "", sentence);
                continue;
            }
            struct mr_config *config = parse(flags, "");
            if (!config) fail_msg("%s: %s", flags, last.detail);
            mr_config_destroy(config);
        }
    }
}

static void the_table_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < mr_option_count; i++) {
        const struct mr_option *option = &mr_options[i];
        assert_ptr_equal(mr_option_find(option->name), option);
        assert_true(option->commands != 0 && option->help[0]);
        assert_true(option->kind == MR_OPTION_BOOL || option->value != NULL);
        assert_true(option->kind != MR_OPTION_CHOICE || option->choices != NULL);
        assert_true(option->offset < sizeof(struct mr_config));
    }
    assert_string_equal(mr_command_name(MR_COMMAND_TOKENIZE), "tokenize");
    expect_assert_failure(mr_command_name(MR_COMMAND_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_complete),
        cmocka_unit_test(flag_beats_environment_beats_file_beats_default),
        cmocka_unit_test(the_file_may_come_from_the_environment),
        cmocka_unit_test(words_behind_two_dashes_are_counted),
        cmocka_unit_test(lists_are_appended_and_a_stronger_origin_replaces_them),
        cmocka_unit_test(request_topics_carry_their_settings),
        cmocka_unit_test(switches_can_be_turned_off),
        cmocka_unit_test(arguments_mix_with_flags_and_end_with_two_dashes),
        cmocka_unit_test(unknown_names_are_errors_with_a_hint),
        cmocka_unit_test(a_misspelled_variable_is_an_error_with_a_hint),
        cmocka_unit_test(variables_of_others_are_not_options),
        cmocka_unit_test(a_given_kv_memory_is_told_from_the_default),
        cmocka_unit_test(the_name_of_an_option_is_never_a_value),
        cmocka_unit_test(a_reply_topic_may_be_a_prefix),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(a_missing_option_or_argument_is_named),
        cmocka_unit_test(help_and_version_require_no_option),
        cmocka_unit_test(printing_shows_origins_and_hides_secrets),
        cmocka_unit_test(each_command_takes_the_options_that_it_uses),
        cmocka_unit_test(every_flag_of_every_command_is_understood_or_refused),
        cmocka_unit_test(the_table_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
