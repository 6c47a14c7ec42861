/* log_file - reopens the file that the log is written to under its first path, after a program such
 * as logrotate has renamed it.
 *
 * The descriptor keeps its number, so all output of the process on it goes to the new file, not
 * only log lines. A terminal, a pipe or a socket is left as it is.
 *
 * Owner: one thread at a time. Memory: the struct. Errors: MR_BAD_CONFIG from _reopen; the old file
 * stays open then. */
#ifndef MR_WORKER_BASE_LOG_FILE_H
#define MR_WORKER_BASE_LOG_FILE_H

#include "codec/status.h"

#include <limits.h>

struct mr_log_file {
    int fd;
    char path[PATH_MAX]; /* "": not a regular file */
};

/* Remembers the path of the file that fd is open on. */
void mr_log_file_remember(struct mr_log_file *file, int fd);
/* Opens the path again, creates the file if it is missing, and replaces fd by it. If fd was not
 * open on a regular file, does nothing and returns MR_OK. */
enum mr_status mr_log_file_reopen(const struct mr_log_file *file, struct mr_error *err);

#endif
