/* log_file - the file behind a descriptor that the log is written to, opened again under its first
 * path when a program such as logrotate has renamed it.
 *
 * Everything that the process writes there goes to the new file, not only log lines, because the
 * descriptor's number stays. A terminal, a pipe or a socket stays as it is.
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
/* Opens the path again, creates it if it is not there, and puts it in the place of fd. MR_OK and
 * nothing done: it is not a regular file. */
enum mr_status mr_log_file_reopen(const struct mr_log_file *file, struct mr_error *err);

#endif
