#include "worker/base/wake.h"

#include "worker/base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum mr_status mr_wake_open(struct mr_wake *wake, struct mr_error *err)
{
    wake->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake->fd < 0) return mr_fail(err, MR_NOMEM, "eventfd: %s", strerror(errno));
    return MR_OK;
}

void mr_wake_close(struct mr_wake *wake)
{
    if (wake->fd >= 0) close(wake->fd);
    wake->fd = -1;
}

void mr_wake_ring(const struct mr_wake *wake)
{
    uint64_t one = 1;
    /* write() fails only if the eventfd's counter is about to overflow; then the wake is rung
     * already. */
    ssize_t written = write(wake->fd, &one, sizeof one);
    (void)written;
}

bool mr_wake_wait_sockets(const struct mr_wake *wake, struct pollfd *fds, size_t count,
                          uint64_t timeout_ns)
{
    struct timespec timeout = mr_clock_timespec(timeout_ns);
    uint64_t rings = 0;
    fds[count] = (struct pollfd){.fd = wake->fd, .events = POLLIN};
    if (ppoll(fds, count + 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL) <= 0) return false;
    return read(wake->fd, &rings, sizeof rings) == (ssize_t)sizeof rings;
}

bool mr_wake_wait(const struct mr_wake *wake, uint64_t timeout_ns)
{
    struct pollfd polled[1];
    return mr_wake_wait_sockets(wake, polled, 0, timeout_ns);
}
