#include "worker/cli/cli.h"

#include "codec/check.h"
#include "worker/base/version.h"
#include "worker/cli/cli_common.h"
#include "worker/config/options_print.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const struct {
    enum mr_command command;
    int (*run)(const struct mr_config *config, struct mr_log *log);
} commands[] = {
    {MR_COMMAND_SERVE, mr_cli_serve},     {MR_COMMAND_DEMO, mr_cli_demo},
    {MR_COMMAND_BROKER, mr_cli_broker},   {MR_COMMAND_SEND, mr_cli_send},
    {MR_COMMAND_TAIL, mr_cli_tail},       {MR_COMMAND_CANCEL, mr_cli_cancel},
    {MR_COMMAND_CHECK, mr_cli_check},     {MR_COMMAND_TOKENIZE, mr_cli_tokenize},
    {MR_COMMAND_BENCH, mr_cli_bench},     {MR_COMMAND_TOPICS, mr_cli_topics},
    {MR_COMMAND_REPLAY, mr_cli_replay},   {MR_COMMAND_TOP, mr_cli_top},
    {MR_COMMAND_LAG, mr_cli_lag},         {MR_COMMAND_BATCH, mr_cli_batch},
    {MR_COMMAND_GATEWAY, mr_cli_gateway},
};

/* Returns the log level. The demo logs only warnings by default, because its answers are printed on
 * the same screen. */
static enum mr_log_level log_level(const struct mr_config *config)
{
    bool quiet = config->command == MR_COMMAND_DEMO && config->log_level == MR_LOG_INFO;
    return quiet ? MR_LOG_WARN : config->log_level;
}

/* Finds --log-format on the command line or in the environment, because the configuration could not
 * be read. A value in the configuration file is not found. */
static enum mr_log_format find_log_format(int argc, char *const argv[])
{
    static const char flag[] = "--log-format";
    const char *format = getenv("MILLRACE_LOG_FORMAT");
    for (int i = 2; i < argc; i++) {
        if (strncmp(argv[i], flag, sizeof flag - 1) != 0) continue;
        const char *value = argv[i] + sizeof flag - 1;
        if (*value == '=') format = value + 1;
        if (*value == '\0' && i + 1 < argc) format = argv[i + 1];
    }
    if (format && strcmp(format, "text") == 0) return MR_LOG_TEXT;
    return format && strcmp(format, "json") == 0 ? MR_LOG_JSON : MR_LOG_AUTO;
}

int mr_cli_refuse(int argc, char *const argv[], const struct mr_error *err)
{
    struct mr_log *log = NULL;
    struct mr_log_options options = {.fd = STDERR_FILENO,
                                     .format = find_log_format(argc, argv),
                                     .level = MR_LOG_ERROR,
                                     .worker = ""};
    bool serve = argc > 1 && strcmp(argv[1], "serve") == 0;
    if (serve && mr_log_create(&log, &options, NULL) == MR_OK && mr_log_is_json(log))
        mr_log_error(log, "%s", err->detail);
    else
        fprintf(stderr, "millrace: %s\n", err->detail);
    mr_log_destroy(log);
    return MR_EXIT_USAGE;
}

static int run_command(const struct mr_config *config)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (commands[i].command != config->command) continue;
        struct mr_log *log = NULL;
        struct mr_log_options options = {.fd = STDERR_FILENO,
                                         .format = config->log_format,
                                         .level = log_level(config),
                                         .worker = config->worker_id};
        struct mr_error err = {0};
        if (mr_log_create(&log, &options, &err) != MR_OK) return mr_cli_fail(&err);
        for (size_t k = 0; k < config->ignored_variables.count; k++)
            mr_log_debug(log, "ignored environment variable %s: it describes a Kubernetes service",
                         config->ignored_variables.values[k]);
        int code = commands[i].run(config, log);
        mr_log_destroy(log);
        return code;
    }
    mr_check_failed("the command is in the table", __FILE__, __LINE__);
}

/* Width at which help is wrapped: $COLUMNS, else that of the terminal, else 80. */
static unsigned columns_of_stdout(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize window;
    unsigned long columns = given ? strtoul(given, NULL, 10) : 0;
    if (columns == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) columns = window.ws_col;
    return columns > 0 && columns <= 1000 ? (unsigned)columns : 80;
}

/* Prints the help text for `millrace help COMMAND` and `millrace COMMAND --help`. */
static int print_help(const struct mr_config *config)
{
    enum mr_command command = config->command;
    if (command == MR_COMMAND_HELP && config->argument_count > 0) {
        for (command = 0; command < MR_COMMAND_COUNT; command++)
            if (strcmp(mr_command_name(command), config->arguments[0]) == 0) break;
        if (command == MR_COMMAND_COUNT) {
            fprintf(stderr, "millrace: unknown command %.32s\n", config->arguments[0]);
            return MR_EXIT_USAGE;
        }
    }
    mr_options_print_help(command, columns_of_stdout(), stdout);
    return MR_EXIT_DONE;
}

static int print_completion(const struct mr_config *config)
{
    const char *shell = config->argument_count > 0 ? config->arguments[0] : "bash";
    if (mr_options_print_completion(shell, stdout)) return MR_EXIT_DONE;
    fprintf(stderr, "millrace: completion is for bash, zsh or fish, not for %.32s\n", shell);
    return MR_EXIT_USAGE;
}

static int run(const struct mr_config *config)
{
    if (config->help || config->command == MR_COMMAND_HELP) return print_help(config);
    if (config->command == MR_COMMAND_VERSION)
        printf("millrace %s\n", mr_version);
    else if (config->command == MR_COMMAND_MAN)
        mr_options_print_man(stdout);
    else if (config->command == MR_COMMAND_COMPLETION)
        return print_completion(config);
    else if (config->print_config)
        mr_config_print(config, stdout);
    else
        return run_command(config);
    return MR_EXIT_DONE;
}

int mr_cli_run(const struct mr_config *config)
{
    return mr_cli_output_code(run(config));
}
