/* cli_common - functions that several commands share: the exit code of an error, whether stdout
 * accepts output, waiting for signals, --timeout, request ids, joined arguments. The commands are
 * in worker/cli/cli_*.c.
 *
 * Owner: main thread. Memory: mr_cli_join allocates its text. */
#ifndef MR_WORKER_CLI_CLI_COMMON_H
#define MR_WORKER_CLI_CLI_COMMON_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdbool.h>
#include <stddef.h>

/* Prints "millrace: <err->detail>" to stderr, with control characters escaped, because errors quote
 * names and values of others; returns the exit code for err->status. */
int mr_cli_fail(const struct mr_error *err);

/* True when stdout has failed: its reader has closed it, or a write failed. A command that prints
 * until a signal then ends. */
bool mr_cli_output_failed(void);
/* Flushes stdout and returns the exit code of the process. If stdout has failed although its reader
 * is there, prints the reason to stderr and returns MR_EXIT_FAILED unless code is another failure.
 */
int mr_cli_output_code(int code);

/* MR_BAD_CONFIG if no request can have this id: it is not 1 to 128 printable ASCII characters. */
enum mr_status mr_cli_check_id(const char *id, struct mr_error *err);

/* SIGINT and SIGTERM as a descriptor that can be polled. _open blocks both signals in the calling
 * thread and in every thread created afterwards. */
struct mr_cli_signals {
    int fd;
    unsigned count;   /* SIGINT and SIGTERM received since _open */
    unsigned hangups; /* SIGHUP received since _watch_hangups */
};
void mr_cli_signals_open(struct mr_cli_signals *signals);
/* SIGHUP is counted too, from now on, instead of ending the process. */
void mr_cli_signals_watch_hangups(struct mr_cli_signals *signals);
void mr_cli_signals_close(struct mr_cli_signals *signals);
/* Blocks until a signal arrives, other_fd is readable (-1: no other descriptor) or timeout_ms have
 * passed (-1: no timeout). Returns true if at least one signal has arrived since
 * mr_cli_signals_open. */
bool mr_cli_signals_wait(struct mr_cli_signals *signals, int other_fd, int timeout_ms);

/* Returns --timeout in milliseconds, at least 1, or usual_ms when it is 0 or longer than that. */
uint32_t mr_cli_timeout_ms(const struct mr_config *config, uint32_t usual_ms);

/* Number of leading FIELD=VALUE words, where FIELD has only lower-case letters and underscores; the
 * words after `--` are always prompts. */
size_t mr_cli_count_fields(const struct mr_config *config);
/* The words joined by single spaces, malloc'ed; NULL when there is no memory. */
char *mr_cli_join(const char *const *words, size_t count);

#endif
