/* shutdown - limits how long a process takes to end after SIGTERM or SIGINT, in any state of the
 * worker: a thread counts the signals and ends the process at a time limit.
 *
 *     before the worker serves       1 second after the signal; no request has been taken yet
 *     while it serves                the drain timeout and 4.5 seconds after the signal
 *     from the second signal on      1 second after that signal
 *
 * A graceful end is faster, and the process then returns from its main function. The limit is for
 * calls that cannot be interrupted: opening a model, a call of librdkafka that does not return, a
 * name server that does not answer. Ending the process is as safe as a crash at any time.
 *
 * Threads: the main thread makes all calls except _step, which the thread "shutdown" runs (or a
 *          test). Memory: one allocation. Errors: at creation. */
#ifndef MR_WORKER_SERVE_SHUTDOWN_H
#define MR_WORKER_SERVE_SHUTDOWN_H

#include "worker/base/clock.h"
#include "worker/base/wake.h"
#include "worker/serve/parts.h"

struct mr_shutdown;

struct mr_shutdown_options {
    uint64_t drain_ns; /* the option --drain-timeout */
    int signal_fd;     /* readable when a signal has come; -1: none */
    /* Returns the number of signals received so far; never blocks. */
    unsigned (*count)(void *context);
    /* Ends the process at once. */
    void (*end)(void *context, enum mr_exit code);
    void *context;
};

enum mr_status mr_shutdown_create(struct mr_shutdown **out,
                                  const struct mr_shutdown_options *options, struct mr_error *err);
enum mr_status mr_shutdown_start(struct mr_shutdown *shutdown, struct mr_error *err);
/* Call when the worker takes requests. From now on the first signal leaves it time to drain. */
void mr_shutdown_serve(struct mr_shutdown *shutdown);
/* Number of signals received. */
unsigned mr_shutdown_signals(const struct mr_shutdown *shutdown);
/* Rung at each signal. */
const struct mr_wake *mr_shutdown_wake(const struct mr_shutdown *shutdown);
/* The body of the thread; for its return value see worker/base/thread.h. */
uint64_t mr_shutdown_step(struct mr_shutdown *shutdown, struct mr_time now);
/* Ends the thread, and with it the limit. shutdown may be NULL. */
void mr_shutdown_destroy(struct mr_shutdown *shutdown);

#endif
