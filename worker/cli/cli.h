/* cli - runs the command named on the command line.
 *
 * Every command is one function in a file of its own; worker/cli/cli.c has the table of commands.
 * To add a command, write worker/cli/cli_NAME.c and add a line to the table. serve, gateway and
 * broker run until a signal. send, batch, tail, cancel, replay, topics, lag and bench are Kafka
 * clients. check and tokenize need no running worker. Commands print output for programs to stdout
 * and messages for people to stderr.
 *
 * Owner: main thread. Errors: one sentence on stderr and an exit code (enum mr_exit). */
#ifndef MR_WORKER_CLI_CLI_H
#define MR_WORKER_CLI_CLI_H

#include "worker/base/log.h"
#include "worker/config/options.h"
#include "worker/serve/parts.h"

/* Prints why the configuration could not be read; returns the exit code of the process. For the
 * command serve the message is a line of the log, in the format that the command line or the
 * environment sets. */
int mr_cli_refuse(int argc, char *const argv[], const struct mr_error *err);
/* Runs config->command; returns the exit code of the process. */
int mr_cli_run(const struct mr_config *config);

/* The functions of the commands. log may be NULL. */
int mr_cli_serve(const struct mr_config *config, struct mr_log *log);
int mr_cli_demo(const struct mr_config *config, struct mr_log *log);
int mr_cli_broker(const struct mr_config *config, struct mr_log *log);
int mr_cli_gateway(const struct mr_config *config, struct mr_log *log);
int mr_cli_send(const struct mr_config *config, struct mr_log *log);
int mr_cli_batch(const struct mr_config *config, struct mr_log *log);
int mr_cli_tail(const struct mr_config *config, struct mr_log *log);
int mr_cli_cancel(const struct mr_config *config, struct mr_log *log);
int mr_cli_check(const struct mr_config *config, struct mr_log *log);
int mr_cli_tokenize(const struct mr_config *config, struct mr_log *log);
int mr_cli_replay(const struct mr_config *config, struct mr_log *log);
int mr_cli_top(const struct mr_config *config, struct mr_log *log);
int mr_cli_lag(const struct mr_config *config, struct mr_log *log);
int mr_cli_topics(const struct mr_config *config, struct mr_log *log);
int mr_cli_bench(const struct mr_config *config, struct mr_log *log);

#endif
