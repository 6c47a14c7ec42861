/* Sweeps of commands, from their arguments to their exit code. The output is discarded. */
#include "tests/sweep/sweep.h"
#include "worker/cli/cli.h"
#include "worker/config/options.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODEL "tests/golden/models/qwen2"

/* The same as worker/cli/main.c: a command that fails prints the reason in a line. */
static int run(const char *const *words, size_t count)
{
    char *environment[] = {NULL};
    struct mr_config *config = NULL;
    struct mr_error err = {0};
    enum mr_status status =
        mr_config_create(&config, (int)count, (char *const *)(uintptr_t)words, environment, &err);
    if (status != MR_OK) fprintf(stderr, "%s\n", err.detail);
    int code = status == MR_OK ? mr_cli_run(config) : MR_EXIT_USAGE;
    mr_config_destroy(config);
    return code;
}

static void live(const char *const *words, size_t count, int expected)
{
    char said[512];
    FILE *errors = tmpfile();
    int nowhere = open("/dev/null", O_WRONLY), out = dup(1), err = dup(2);
    fflush(stdout);
    dup2(nowhere, 1);
    dup2(fileno(errors), 2);
    sweep_begin();
    int code = run(words, count);
    const char *failed = sweep_end();
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    rewind(errors);
    bool line = fgets(said, sizeof said, errors) != NULL;
    bool says_why = line || (failed && strcmp(failed, "write") == 0); /* of the same line */
    bool as_expected = failed ? code == MR_EXIT_DONE || says_why : code == expected;
    for (bool more = line && !as_expected; more; more = fgets(said, sizeof said, errors) != NULL)
        fputs(said, stderr);
    close(nowhere);
    close(out);
    close(err);
    fclose(errors);
    SWEEP_CHECK(as_expected);
}

static void help(void)
{
    static const char *const words[] = {"millrace", "help", "serve"};
    live(words, 3, MR_EXIT_DONE);
}

static void tokenize(void)
{
    static const char *const words[] = {"millrace", "tokenize", "--model", MODEL, "the mill"};
    live(words, 5, MR_EXIT_DONE);
}

static void serve_without_model(void)
{
    static const char *const words[] = {"millrace",         "serve",       "--model", "none.gguf",
                                        "--brokers",        "127.0.0.1:1", "--http",  "off",
                                        "--broker-timeout", "100ms"};
    live(words, 10, MR_EXIT_MODEL);
}

int main(int argc, char *argv[])
{
    static const struct sweep_life lives[] = {
        {.name = "help", .live = help},
        {.name = "tokenize", .live = tokenize},
        {.name = "serve_without_model", .live = serve_without_model},
    };
    return sweep_main(argc, argv, lives, sizeof lives / sizeof *lives);
}
