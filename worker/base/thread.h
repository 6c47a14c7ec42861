/* thread - the loop around a step function: the only place where a thread of the worker sleeps.
 *
 * The work of each thread is a function `step(state, now)`. A step does all work that is due at the
 * time `now`, reads no clock and does not block. The step returns the monotonic time at which to
 * run it again: a time in the past means at once, UINT64_MAX means not before the wake is rung. The
 * loop calls the step, sleeps until that time or until the wake or a socket has an event, and calls
 * the step again. A simulation calls the same step functions in one thread, under virtual time.
 *
 * Threads: one thread, the owner, calls _start and _stop; the step runs on the new thread, and
 * never again after _stop has returned. Memory: one allocation. Errors: MR_NOMEM from _start. */
#ifndef MR_WORKER_BASE_THREAD_H
#define MR_WORKER_BASE_THREAD_H

#include "codec/status.h"
#include "worker/base/clock.h"
#include "worker/base/heartbeat.h"
#include "worker/base/wake.h"

#define MR_THREAD_SOCKETS_MAX 64u

struct mr_thread;

struct mr_thread_options {
    const char *name; /* at most 15 bytes; shown by the programs ps and top */
    uint64_t (*step)(void *state, struct mr_time now);
    void *state;
    /* borrowed; another thread rings this wake when the step has something new to do */
    const struct mr_wake *wake;
    /* Writes the sockets whose events also end the thread's sleep to fds, at most max, and returns
     * how many. NULL: the thread has no sockets. */
    size_t (*sockets)(void *state, struct pollfd *fds, size_t max);
    /* the thread computes, so it gets time slices of the default length (worker/base/slice.h) */
    bool computes;
    /* where the thread's steps are recorded, borrowed; NULL: nowhere. A step that lasts longer than
     * step_max_ns is stuck. */
    struct mr_heartbeats *heartbeats;
    uint64_t step_max_ns;
};

enum mr_status mr_thread_start(struct mr_thread **out, const struct mr_thread_options *options,
                               struct mr_error *err);
/* Waits until the step in progress returns, then ends the thread. thread may be NULL. */
void mr_thread_stop(struct mr_thread *thread);
/* The same, but waits for at most timeout_ms. False: the step has not returned. The thread ends
 * after that step; until the process ends nothing that the step uses may be freed. */
bool mr_thread_stop_within(struct mr_thread *thread, uint32_t timeout_ms);

#endif
