/* wake - an eventfd that wakes a sleeping thread. Other threads and librdkafka ring the wake, so
 * that a thread with several sources of work can sleep in one place.
 *
 * Several rings before a wait end that wait only once. After a wait has returned true, the owner
 * must empty every source of work before the next wait.
 *
 * Threads: _ring: any, also from a signal handler; _wait: the owner. Memory: one file descriptor.
 * Errors: only _open. */
#ifndef MR_WORKER_BASE_WAKE_H
#define MR_WORKER_BASE_WAKE_H

#include "codec/status.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

struct mr_wake {
    int fd; /* the eventfd, non-blocking; writing a uint64_t 1 (8 bytes) to it rings the wake */
};

enum mr_status mr_wake_open(struct mr_wake *wake, struct mr_error *err);
void mr_wake_close(struct mr_wake *wake);
void mr_wake_ring(const struct mr_wake *wake);
/* Sleeps until the wake is rung or timeout_ns has passed (UINT64_MAX: no timeout); true when it was
 * rung. */
bool mr_wake_wait(const struct mr_wake *wake, uint64_t timeout_ns);
/* Like mr_wake_wait, and also returns when one of the sockets fds[0] .. fds[count - 1] has an
 * event. The array fds has space for count + 1 elements. */
bool mr_wake_wait_sockets(const struct mr_wake *wake, struct pollfd *fds, size_t count,
                          uint64_t timeout_ns);

#endif
