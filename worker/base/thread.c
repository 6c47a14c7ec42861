#include "worker/base/thread.h"

#include "worker/base/slice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct mr_thread {
    struct mr_thread_options options;
    struct mr_heartbeat *heartbeat; /* NULL: the thread is not watched */
    pthread_t thread;
    atomic_bool stopping;
    pthread_mutex_t mutex;
    pthread_cond_t ending; /* signalled when `ended` becomes true */
    bool ended;            /* under mutex: the last step has returned */
};

static void sleep_until(struct mr_thread *thread, uint64_t next_ns)
{
    const struct mr_thread_options *options = &thread->options;
    struct pollfd fds[MR_THREAD_SOCKETS_MAX + 1];
    uint64_t now_ns = next_ns == UINT64_MAX ? 0 : mr_clock_ns();
    if (next_ns <= now_ns) return;
    size_t count =
        options->sockets ? options->sockets(options->state, fds, MR_THREAD_SOCKETS_MAX) : 0;
    mr_wake_wait_sockets(options->wake, fds, count,
                         next_ns == UINT64_MAX ? UINT64_MAX : next_ns - now_ns);
}

static void *run(void *argument)
{
    struct mr_thread *thread = argument;
    if (thread->options.computes) mr_slice_usual();
    while (!atomic_load(&thread->stopping)) {
        struct mr_time now = mr_clock_now();
        mr_heartbeat_begin(thread->heartbeat, now.ns);
        uint64_t next_ns = thread->options.step(thread->options.state, now);
        mr_heartbeat_end(thread->heartbeat);
        sleep_until(thread, next_ns);
    }
    pthread_mutex_lock(&thread->mutex);
    thread->ended = true;
    pthread_cond_signal(&thread->ending);
    pthread_mutex_unlock(&thread->mutex);
    return NULL;
}

static void destroy(struct mr_thread *thread)
{
    mr_heartbeat_remove(thread->heartbeat);
    pthread_cond_destroy(&thread->ending);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}

enum mr_status mr_thread_start(struct mr_thread **out, const struct mr_thread_options *options,
                               struct mr_error *err)
{
    *out = NULL;
    struct mr_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return mr_fail(err, MR_NOMEM, "no memory for the thread %s", options->name);
    thread->options = *options;
    thread->heartbeat = mr_heartbeat_add(options->heartbeats, options->name, options->step_max_ns);
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->ending, NULL);
    if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
        destroy(thread);
        return mr_fail(err, MR_NOMEM, "the thread %s cannot be started", options->name);
    }
    pthread_setname_np(thread->thread, options->name);
    *out = thread;
    return MR_OK;
}

static void end(struct mr_thread *thread)
{
    atomic_store(&thread->stopping, true);
    mr_wake_ring(thread->options.wake);
}

void mr_thread_stop(struct mr_thread *thread)
{
    if (!thread) return;
    end(thread);
    pthread_join(thread->thread, NULL);
    destroy(thread);
}

bool mr_thread_stop_within(struct mr_thread *thread, uint32_t timeout_ms)
{
    if (!thread) return true;
    const uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    end(thread);
    pthread_mutex_lock(&thread->mutex);
    while (!thread->ended && mr_clock_wait(&thread->ending, &thread->mutex, until_ns))
        ;
    bool ended = thread->ended;
    pthread_mutex_unlock(&thread->mutex);
    if (ended) mr_thread_stop(thread);
    return ended;
}
