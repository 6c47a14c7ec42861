/* cli - the commands of the millrace program: one table, one function each.
 *
 * A new command is a part of this module: a line in cli.c and a file below. worker/cli/cli_serve.c,
 * worker/cli/cli_demo.c and worker/cli/cli_broker.c run servers; worker/cli/cli_send.c,
 * worker/cli/cli_tail.c, worker/cli/cli_cancel.c and worker/cli/cli_bench.c are clients;
 * worker/cli/cli_check.c and worker/cli/cli_tokenize.c end at once. What a command prints for a
 * program to read goes to stdout, everything for people to stderr.
 *
 * Owner: main thread. Errors: a sentence on stderr and the exit code of CONTRACT section 8. */
#ifndef MR_WORKER_CLI_CLI_H
#define MR_WORKER_CLI_CLI_H

#include "worker/base/log.h"
#include "worker/config/options.h"
#include "worker/serve/worker.h"

/* Runs the configured command; the process' exit code. */
int mr_cli_run(const struct mr_config *config);

/* One command each; log may be NULL. */
int mr_cli_serve(const struct mr_config *config, struct mr_log *log);
int mr_cli_demo(const struct mr_config *config, struct mr_log *log);
int mr_cli_broker(const struct mr_config *config, struct mr_log *log);
int mr_cli_send(const struct mr_config *config, struct mr_log *log);
int mr_cli_tail(const struct mr_config *config, struct mr_log *log);
int mr_cli_cancel(const struct mr_config *config, struct mr_log *log);
int mr_cli_check(const struct mr_config *config, struct mr_log *log);
int mr_cli_tokenize(const struct mr_config *config, struct mr_log *log);
int mr_cli_bench(const struct mr_config *config, struct mr_log *log);

/* ---- for the commands ---- */

/* "millrace: <sentence>" on stderr; returns the exit code that the status stands for. */
int mr_cli_fail(const struct mr_error *err);

/* SIGINT and SIGTERM as something to wait for: blocks them in this thread and those made later. */
struct mr_cli_signals {
    int fd;
    unsigned count; /* received so far */
};
void mr_cli_signals_open(struct mr_cli_signals *signals);
void mr_cli_signals_close(struct mr_cli_signals *signals);
/* Sleeps until a signal, the other descriptor (-1: none) or the timeout; true when a signal has
 * ever come. timeout_ms -1: for ever. */
bool mr_cli_signals_wait(struct mr_cli_signals *signals, int other_fd, int timeout_ms);

/* The text of the arguments joined by spaces, malloc'ed. */
char *mr_cli_join(const char *const *words, size_t count);

#endif
