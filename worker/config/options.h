/* options - what the program was told to do: one table (options_table.c) makes the flags, the
 * environment variables MILLRACE_<NAME>, the keys of the YAML file, the help, the man page and the
 * shell completion. Precedence: flag > environment > file > default.
 *
 * Owner:  the main thread, before any other thread starts; read-only afterwards, any thread.
 * Memory: every text in struct mr_config lives as long as the configuration.
 * Errors: MR_BAD_CONFIG with one sentence (an unknown name comes with the nearest known one).
 * The texts are generated in worker/config/options_text.c. */
#ifndef MR_WORKER_CONFIG_OPTIONS_H
#define MR_WORKER_CONFIG_OPTIONS_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdint.h>
#include <stdio.h>

/* Parses `millrace COMMAND [options] [arguments]`. environment is environ (NAME=VALUE, NULL at the
 * end); the file is the one --config or MILLRACE_CONFIG names. With --help, --version or no command
 * the rest is not validated. */
enum mr_status mr_config_create(struct mr_config **out, int argc, char *const argv[],
                                char *const environment[], struct mr_error *err);
/* config may be NULL. */
void mr_config_destroy(struct mr_config *config);

/* Every option of the command with its value and origin, secrets masked. */
void mr_config_print(const struct mr_config *config, FILE *out);

/* "serve", "demo" ... Static text. */
const char *mr_command_name(enum mr_command command);

/* Options of one command with defaults; MR_COMMAND_HELP: the list of commands. */
void mr_options_print_help(enum mr_command command, FILE *out);
/* The manual page in man(7) format. */
void mr_options_print_man(FILE *out);
/* Completion for bash. */
void mr_options_print_completion(FILE *out);

#endif
