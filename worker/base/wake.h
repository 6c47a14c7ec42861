/* wake - an eventfd that wakes a sleeping thread. Other threads and librdkafka ring it, so that a
 * thread with several sources of work sleeps in one place.
 *
 * Several rings before a wait count as one: after a wait has returned true, the owner empties every
 * source of work before it waits again.
 *
 * Threads: _ring any (also from a signal handler); _wait the owner. Memory: one descriptor.
 * Errors:  only _open. */
#ifndef MR_WORKER_BASE_WAKE_H
#define MR_WORKER_BASE_WAKE_H

#include "codec/status.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

struct mr_wake {
    int fd; /* non-blocking; writing a uint64_t 1 (8 bytes) rings the wake */
};

enum mr_status mr_wake_open(struct mr_wake *wake, struct mr_error *err);
void mr_wake_close(struct mr_wake *wake);
void mr_wake_ring(const struct mr_wake *wake);
/* Sleeps until the wake is rung or timeout_ns has passed (UINT64_MAX: no timeout); true when it was
 * rung. */
bool mr_wake_wait(const struct mr_wake *wake, uint64_t timeout_ns);
/* The same, and also returns when an event of fds[0..count) arrives. fds has room for count + 1. */
bool mr_wake_wait_sockets(const struct mr_wake *wake, struct pollfd *fds, size_t count,
                          uint64_t timeout_ns);

#endif
