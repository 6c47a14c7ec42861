/* log_sink - writes whole lines to a descriptor without blocking.
 *
 * A pipe, a terminal or a socket is written to in non-blocking mode. The descriptor itself may be
 * in blocking mode, because other processes share that mode. When there is no room, the first line
 * waits for MR_LOG_SINK_WAIT_MS; then lines are lost, without a further wait, until there is room
 * again. The rest of a partly written line is kept and written before any other line. A regular
 * file is written to as usual.
 *
 * Owner: one thread at a time. Memory: the struct. Errors: none; `lost` counts lost lines. */
#ifndef MR_WORKER_BASE_LOG_SINK_H
#define MR_WORKER_BASE_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Linux writes up to this many bytes to a pipe all at once or not at all (PIPE_BUF). */
#define MR_LOG_SINK_BYTES   ((size_t)4096)
#define MR_LOG_SINK_WAIT_MS 10

struct mr_log_sink {
    int fd;     /* the descriptor that was given to _open */
    int own_fd; /* the same file in non-blocking mode; -1: none, use fd */
    bool is_socket;
    uint64_t lost;                /* lines since the last one that was written */
    char rest[MR_LOG_SINK_BYTES]; /* [rest_length] of the line that was written in part */
    size_t rest_length;
};

/* fd is borrowed; it may be closed or replaced (dup2) if it is a regular file. */
void mr_log_sink_open(struct mr_log_sink *sink, int fd);
void mr_log_sink_close(struct mr_log_sink *sink);
/* Writes a line of at most MR_LOG_SINK_BYTES, or counts it as lost. A line that is written sets
 * `lost` to 0. */
void mr_log_sink_write(struct mr_log_sink *sink, const char *line, size_t length);

#endif
