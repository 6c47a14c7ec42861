#include "worker/serve/shutdown.h"

#include "worker/base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SECOND_NS ((uint64_t)1000000000)
/* Time after the drain timeout: half a second less than the documented 5 s, because a busy machine
 * takes time to end a process. */
#define MORE_NS (SECOND_NS * 9 / 2)

struct mr_shutdown {
    struct mr_shutdown_options options;
    struct mr_wake wake; /* ends the thread's sleep */
    struct mr_wake rung; /* rung at each signal, for the main thread */
    struct mr_thread *thread;
    atomic_bool serving;
    atomic_uint signals;
    uint64_t end_ns; /* used only by the step: when the process ends; UINT64_MAX: it need not */
    enum mr_exit code;
};

enum mr_status mr_shutdown_create(struct mr_shutdown **out,
                                  const struct mr_shutdown_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_shutdown *shutdown = calloc(1, sizeof *shutdown);
    if (!shutdown) return mr_fail(err, MR_NOMEM, "no memory for the shutdown thread");
    shutdown->options = *options;
    shutdown->end_ns = UINT64_MAX;
    enum mr_status status = mr_wake_open(&shutdown->wake, err);
    if (status != MR_OK) goto fail_memory;
    status = mr_wake_open(&shutdown->rung, err);
    if (status != MR_OK) goto fail_wake;
    *out = shutdown;
    return MR_OK;
fail_wake:
    mr_wake_close(&shutdown->wake);
fail_memory:
    free(shutdown);
    return status;
}

static void end_by(struct mr_shutdown *shutdown, uint64_t end_ns, enum mr_exit code)
{
    if (end_ns >= shutdown->end_ns) return;
    shutdown->end_ns = end_ns;
    shutdown->code = code;
}

static void on_first_signal(struct mr_shutdown *shutdown, uint64_t now_ns)
{
    uint64_t drain_ns = shutdown->options.drain_ns;
    if (!atomic_load(&shutdown->serving))
        end_by(shutdown, now_ns + SECOND_NS, MR_EXIT_DONE);
    else if (drain_ns < UINT64_MAX - now_ns - MORE_NS)
        end_by(shutdown, now_ns + drain_ns + MORE_NS, MR_EXIT_FAILED);
}

uint64_t mr_shutdown_step(struct mr_shutdown *shutdown, struct mr_time now)
{
    unsigned before = atomic_load(&shutdown->signals);
    unsigned count = shutdown->options.count(shutdown->options.context);
    atomic_store(&shutdown->signals, count);
    if (count > before) {
        if (before == 0) on_first_signal(shutdown, now.ns);
        if (count > 1) end_by(shutdown, now.ns + SECOND_NS, MR_EXIT_DONE);
        mr_wake_ring(&shutdown->rung);
    }
    if (now.ns < shutdown->end_ns) return shutdown->end_ns;
    shutdown->options.end(shutdown->options.context, shutdown->code);
    return UINT64_MAX;
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_shutdown_step(state, now);
}

static size_t sockets(void *state, struct pollfd *fds, size_t max)
{
    const struct mr_shutdown *shutdown = state;
    if (max == 0 || shutdown->options.signal_fd < 0) return 0;
    fds[0] = (struct pollfd){.fd = shutdown->options.signal_fd, .events = POLLIN};
    return 1;
}

enum mr_status mr_shutdown_start(struct mr_shutdown *shutdown, struct mr_error *err)
{
    struct mr_thread_options options = {.name = "shutdown",
                                        .step = step,
                                        .state = shutdown,
                                        .wake = &shutdown->wake,
                                        .sockets = sockets};
    return mr_thread_start(&shutdown->thread, &options, err);
}

void mr_shutdown_serve(struct mr_shutdown *shutdown)
{
    atomic_store(&shutdown->serving, true);
}

unsigned mr_shutdown_signals(const struct mr_shutdown *shutdown)
{
    return atomic_load(&shutdown->signals);
}

const struct mr_wake *mr_shutdown_wake(const struct mr_shutdown *shutdown)
{
    return &shutdown->rung;
}

void mr_shutdown_destroy(struct mr_shutdown *shutdown)
{
    if (!shutdown) return;
    mr_thread_stop(shutdown->thread);
    mr_wake_close(&shutdown->rung);
    mr_wake_close(&shutdown->wake);
    free(shutdown);
}
