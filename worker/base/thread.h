/* thread - the loop around a step function: the only place where a thread of the worker sleeps.
 *
 * The work of each thread is a function `step(state, now)`. A step does what can be done at the
 * time `now`, reads no clock and does not block. It returns the monotonic time at which to run it
 * again: a time that has passed means at once, UINT64_MAX means only when the wake is rung. The
 * loop calls the step, sleeps on the wake and the sockets until that time, and calls the step
 * again. A simulation calls the same step functions in one thread, under virtual time.
 *
 * Threads: _start and _stop one thread, the owner; the step runs on the new one, never again after
 *          _stop returns. Memory: one allocation. Errors: MR_NOMEM from _start. */
#ifndef MR_WORKER_BASE_THREAD_H
#define MR_WORKER_BASE_THREAD_H

#include "codec/status.h"
#include "worker/base/clock.h"
#include "worker/base/wake.h"

#define MR_THREAD_SOCKETS_MAX 64u

struct mr_thread;

struct mr_thread_options {
    const char *name; /* at most 15 bytes; shown by ps and top */
    uint64_t (*step)(void *state, struct mr_time now);
    void *state;
    const struct mr_wake *wake; /* borrowed; ring it when the step has something new to do */
    /* Sockets whose events also end the sleep: writes at most max; returns how many. NULL: none. */
    size_t (*sockets)(void *state, struct pollfd *fds, size_t max);
    bool computes; /* takes time slices of the usual length (worker/base/slice.h) */
};

enum mr_status mr_thread_start(struct mr_thread **out, const struct mr_thread_options *options,
                               struct mr_error *err);
/* Lets the present step end, then ends the thread. thread may be NULL. */
void mr_thread_stop(struct mr_thread *thread);

#endif
