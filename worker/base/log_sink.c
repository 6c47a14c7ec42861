#include "worker/base/log_sink.h"

#include "codec/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void mr_log_sink_open(struct mr_log_sink *sink, int fd)
{
    char path[32];
    struct stat stat;
    *sink = (struct mr_log_sink){.fd = fd, .own_fd = -1};
    if (fstat(fd, &stat) != 0 || S_ISREG(stat.st_mode)) return;
    sink->is_socket = S_ISSOCK(stat.st_mode);
    if (sink->is_socket) return;
    /* opening the file again makes a separate file description; O_NONBLOCK on fd's own one would
     * also affect the shell and child processes */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    sink->own_fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void mr_log_sink_close(struct mr_log_sink *sink)
{
    if (sink->own_fd >= 0) close(sink->own_fd);
    sink->own_fd = -1;
}

static int target(const struct mr_log_sink *sink)
{
    return sink->own_fd >= 0 ? sink->own_fd : sink->fd;
}

/* Returns how many bytes were written; 0: none, because there is no room or the write failed. */
static size_t write_some(const struct mr_log_sink *sink, const char *bytes, size_t length)
{
    ssize_t written;
    do
        written = sink->is_socket ? send(sink->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : write(target(sink), bytes, length);
    while (written < 0 && errno == EINTR);
    return written > 0 ? (size_t)written : 0;
}

/* Waits until there is room, unless lines are being lost already. */
static void wait_for_room(const struct mr_log_sink *sink)
{
    struct pollfd room = {.fd = target(sink), .events = POLLOUT};
    if (sink->lost == 0) poll(&room, 1, (int)MR_LOG_SINK_WAIT_MS);
}

/* Writes the rest of an earlier line; false: some of it is left. */
static bool write_rest(struct mr_log_sink *sink)
{
    size_t written = sink->rest_length > 0 ? write_some(sink, sink->rest, sink->rest_length) : 0;
    sink->rest_length -= written;
    memmove(sink->rest, sink->rest + written, sink->rest_length);
    return sink->rest_length == 0;
}

void mr_log_sink_write(struct mr_log_sink *sink, const char *line, size_t length)
{
    MR_ASSERT(length <= MR_LOG_SINK_BYTES);
    if (!write_rest(sink)) {
        wait_for_room(sink);
        if (!write_rest(sink)) {
            sink->lost++;
            return;
        }
    }
    size_t written = write_some(sink, line, length);
    if (written == 0) {
        wait_for_room(sink);
        written = write_some(sink, line, length);
    }
    if (written == 0) {
        sink->lost++;
        return;
    }
    sink->lost = 0;
    sink->rest_length = length - written;
    memcpy(sink->rest, line + written, sink->rest_length);
}
