/* options - reads the options from the command line, the environment and a YAML file. One table
 * (worker/config/options_table.c) defines the flags, the environment variables MILLRACE_<NAME>, the
 * keys of the file, the help, the man page and the shell completions. Precedence: flag >
 * environment > file > default.
 *
 * Owner: the main thread, before any other thread starts; read-only afterwards, any thread. Memory:
 * every text in struct mr_config lives as long as the configuration. Errors: MR_BAD_CONFIG with one
 * sentence; for an unknown option name the sentence suggests the nearest known one.
 * worker/config/options_print.h prints help, man page and completions. */
#ifndef MR_WORKER_CONFIG_OPTIONS_H
#define MR_WORKER_CONFIG_OPTIONS_H

#include "codec/status.h"
#include "worker/config/config.h"

/* Parses `millrace COMMAND [options] [arguments]`. environment: an array of NAME=VALUE strings that
 * ends with NULL, like environ. The YAML file is the one that --config or MILLRACE_CONFIG names.
 * With --help or --version, or without a command, the options are not validated. */
enum mr_status mr_config_create(struct mr_config **out, int argc, char *const argv[],
                                char *const environment[], struct mr_error *err);
/* config may be NULL. */
void mr_config_destroy(struct mr_config *config);

#endif
