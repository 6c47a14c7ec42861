/* options_print - the output of millrace about its options, all from the table in
 * worker/config/options_table.c: help (worker/config/options_help.c), manual page
 * (worker/config/options_man.c), completion scripts (worker/config/options_completion.c), and the
 * values of a configuration.
 *
 * Threads: any. Memory: none. Errors: none; the caller checks `out`. */
#ifndef MR_WORKER_CONFIG_OPTIONS_PRINT_H
#define MR_WORKER_CONFIG_OPTIONS_PRINT_H

#include "worker/config/options_table.h"

#include <stdio.h>

/* Prints every option of the command with its value and where the value came from; secrets are
 * masked. */
void mr_config_print(const struct mr_config *config, FILE *out);

/* Prints the options of one command in groups, with their defaults; for MR_COMMAND_HELP the list of
 * commands. columns: width at which lines are wrapped. */
void mr_options_print_help(enum mr_command command, unsigned columns, FILE *out);
/* Prints the manual page in man(7) format. */
void mr_options_print_man(FILE *out);
/* Prints the completion script for the shell "bash", "zsh" or "fish"; false: the shell is not
 * supported. */
bool mr_options_print_completion(const char *shell, FILE *out);

/* ---- shared by the files of this module ---- */

/* Writes "--name VALUE", or for a boolean option "--[no-]name". */
void mr_option_flag_text(const struct mr_option *option, char *out, size_t out_bytes);

#endif
