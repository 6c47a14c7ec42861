/* Sweeps of the start of a worker, before it serves: options, the YAML file, the log, help. */
#include "tests/sweep/sweep.h"
#include "worker/base/log.h"
#include "worker/cli/cli.h"
#include "worker/config/options.h"
#include "worker/config/options_print.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define YAML_PATH "sweep.yaml"

static const char yaml[] = "model: m.gguf\n"
                           "brokers: 127.0.0.1:1\n"
                           "kv-memory: 1GiB\n"
                           "requests-topic: [a, \"b,priority=-10,tenant=reports,queue=1h\"]\n"
                           "kafka: {compression.type: zstd, linger.ms: 3}\n";

/* Parses a command line, with an environment and a file, and prints the result. */
static void parse(const char *const *words, size_t count)
{
    static char variable[] = "MILLRACE_KV_MEMORY=2GiB";
    char *environment[] = {variable, NULL};
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    FILE *nowhere = fopen("/dev/null", "w");
    sweep_begin();
    enum mr_status status =
        mr_config_create(&config, (int)count, (char *const *)(uintptr_t)words, environment, &err);
    if (status == MR_OK) mr_config_print(config, nowhere);
    mr_config_destroy(config);
    const char *failed = sweep_end();
    fclose(nowhere);
    if (status != MR_OK && !failed) fprintf(stderr, "sweep: %s\n", err.detail);
    SWEEP_CHECK(status == MR_OK || failed);
    SWEEP_CHECK((status == MR_OK) == (err.detail[0] == '\0'));
    SWEEP_CHECK(status == MR_OK || config == NULL);
    SWEEP_CHECK(strchr(err.detail, '\n') == NULL);
}

static void options(void)
{
    static const char *const words[] = {
        "millrace",  "serve",   "--model",   "x.gguf",           "--brokers=h:1", "--tenant-weight",
        "default=3", "--kafka", "debug=all", "--requests-topic", "q,priority=10"};
    parse(words, sizeof words / sizeof *words);
}

static void file(void)
{
    static const char *const words[] = {"millrace", "serve", "--config", YAML_PATH};
    FILE *out = fopen(YAML_PATH, "w");
    fputs(yaml, out);
    fclose(out);
    parse(words, sizeof words / sizeof *words);
    unlink(YAML_PATH);
}

static void a_log(void)
{
    struct mr_log *log = NULL;
    struct mr_error err = {0};
    struct mr_log_options options = {.format = MR_LOG_JSON, .level = MR_LOG_INFO, .worker = "w"};
    options.fd = open("/dev/null", O_WRONLY);
    sweep_begin();
    enum mr_status status = mr_log_create(&log, &options, &err);
    if (status == MR_OK) {
        mr_log_info(log, "a line of %d words", 5);
        mr_log_warn(log, "\"%s\"", "quoted\n");
    }
    mr_log_destroy(log);
    const char *failed = sweep_end();
    close(options.fd);
    SWEEP_CHECK(status == MR_OK || (failed && err.detail[0] && !log));
}

int main(int argc, char *argv[])
{
    static const struct sweep_life lives[] = {
        {.name = "options", .live = options},
        {.name = "file", .live = file},
        {.name = "log", .live = a_log},
    };
    return sweep_main(argc, argv, lives, sizeof lives / sizeof *lives);
}
