#include "worker/base/thread.h"

#include "worker/base/slice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct mr_thread {
    struct mr_thread_options options;
    pthread_t thread;
    atomic_bool stopping;
};

static void *run(void *argument)
{
    struct mr_thread *thread = argument;
    if (thread->options.computes) mr_slice_usual();
    while (!atomic_load(&thread->stopping)) {
        uint64_t next_ns = thread->options.step(thread->options.state, mr_clock_now());
        if (next_ns == UINT64_MAX) {
            mr_wake_wait(thread->options.wake, UINT64_MAX);
            continue;
        }
        uint64_t now_ns = mr_clock_ns();
        if (next_ns > now_ns) mr_wake_wait(thread->options.wake, next_ns - now_ns);
    }
    return NULL;
}

enum mr_status mr_thread_start(struct mr_thread **out, const struct mr_thread_options *options,
                               struct mr_error *err)
{
    *out = NULL;
    struct mr_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return mr_fail(err, MR_NOMEM, "no memory for the thread %s", options->name);
    thread->options = *options;
    if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
        free(thread);
        return mr_fail(err, MR_NOMEM, "the thread %s cannot be started", options->name);
    }
    pthread_setname_np(thread->thread, options->name);
    *out = thread;
    return MR_OK;
}

void mr_thread_stop(struct mr_thread *thread)
{
    if (!thread) return;
    atomic_store(&thread->stopping, true);
    mr_wake_ring(thread->options.wake);
    pthread_join(thread->thread, NULL);
    free(thread);
}
