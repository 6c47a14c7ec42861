#include "worker/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const struct {
    enum mr_command command;
    int (*run)(const struct mr_config *config, struct mr_log *log);
} commands[] = {
    {MR_COMMAND_SERVE, mr_cli_serve},   {MR_COMMAND_DEMO, mr_cli_demo},
    {MR_COMMAND_BROKER, mr_cli_broker}, {MR_COMMAND_SEND, mr_cli_send},
    {MR_COMMAND_TAIL, mr_cli_tail},     {MR_COMMAND_CANCEL, mr_cli_cancel},
    {MR_COMMAND_CHECK, mr_cli_check},   {MR_COMMAND_TOKENIZE, mr_cli_tokenize},
    {MR_COMMAND_BENCH, mr_cli_bench},
};

/* In the demo stderr shares the screen with the answer. */
static enum mr_log_level level_of(const struct mr_config *config)
{
    bool quiet = config->command == MR_COMMAND_DEMO && config->log_level == MR_LOG_INFO;
    return quiet ? MR_LOG_WARN : config->log_level;
}

static int run_command(const struct mr_config *config)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (commands[i].command != config->command) continue;
        struct mr_log *log = NULL;
        struct mr_log_options options = {.fd = STDERR_FILENO,
                                         .format = config->log_format,
                                         .level = level_of(config),
                                         .worker = config->worker_id};
        struct mr_error err = {0};
        if (mr_log_create(&log, &options, &err) != MR_OK) return mr_cli_fail(&err);
        int code = commands[i].run(config, log);
        mr_log_destroy(log);
        return code;
    }
    fprintf(stderr, "millrace: %s is not built yet\n", mr_command_name(config->command));
    return MR_EXIT_USAGE;
}

/* `millrace help NAME`, or a command's own --help. */
static int print_help(const struct mr_config *config)
{
    enum mr_command command = config->command;
    if (command == MR_COMMAND_HELP && config->argument_count > 0) {
        for (command = 0; command < MR_COMMAND_COUNT; command++)
            if (strcmp(mr_command_name(command), config->arguments[0]) == 0) break;
        if (command == MR_COMMAND_COUNT) {
            fprintf(stderr, "millrace: there is no command %.32s\n", config->arguments[0]);
            return MR_EXIT_USAGE;
        }
    }
    mr_options_print_help(command, stdout);
    return fflush(stdout) == 0 ? MR_EXIT_DONE : MR_EXIT_FAILED;
}

int mr_cli_run(const struct mr_config *config)
{
    if (config->help || config->command == MR_COMMAND_HELP) return print_help(config);
    if (config->command == MR_COMMAND_VERSION)
        printf("millrace %s\n", MR_VERSION);
    else if (config->command == MR_COMMAND_MAN)
        mr_options_print_man(stdout);
    else if (config->command == MR_COMMAND_COMPLETION)
        mr_options_print_completion(stdout);
    else if (config->print_config)
        mr_config_print(config, stdout);
    else
        return run_command(config);
    return fflush(stdout) == 0 ? MR_EXIT_DONE : MR_EXIT_FAILED;
}

int mr_cli_fail(const struct mr_error *err)
{
    fprintf(stderr, "millrace: %s\n", err->detail);
    switch (err->status) {
    case MR_UNREACHABLE:
        return MR_EXIT_UNREACHABLE;
    case MR_BAD_CONFIG:
    case MR_INVALID_REQUEST:
        return MR_EXIT_USAGE;
    case MR_BAD_FILE:
        return MR_EXIT_MODEL;
    default:
        return MR_EXIT_FAILED;
    }
}

void mr_cli_signals_open(struct mr_cli_signals *signals)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signals->count = 0;
    signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

void mr_cli_signals_close(struct mr_cli_signals *signals)
{
    if (signals->fd >= 0) close(signals->fd);
    signals->fd = -1;
}

bool mr_cli_signals_wait(struct mr_cli_signals *signals, int other_fd, int timeout_ms)
{
    struct pollfd doors[2] = {{.fd = signals->fd, .events = POLLIN},
                              {.fd = other_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    poll(doors, other_fd >= 0 ? 2 : 1, timeout_ms);
    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info)
        signals->count++;
    return signals->count > 0;
}

char *mr_cli_join(const char *const *words, size_t count)
{
    size_t length = 1;
    for (size_t i = 0; i < count; i++)
        length += strlen(words[i]) + 1;
    char *text = calloc(1, length), *at = text;
    for (size_t i = 0; text && i < count; i++) {
        size_t bytes = strlen(words[i]);
        if (i > 0) *at++ = ' ';
        memcpy(at, words[i], bytes);
        at += bytes;
    }
    return text;
}
