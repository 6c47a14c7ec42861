/* engine_thread - the thread that computes: opens the model, runs the engine step by step, and
 * posts what a step made to publish.
 *
 * No other thread of the process may call LibTorch. What a step made is copied into messages and
 * posted together after the step. When publish has no room, the messages are kept and no step runs
 * until there is room. Its phases:
 *
 *     opening     the model, which blocks for seconds
 *     unlinked    until _link; prepares memory meanwhile
 *     running     one engine step a call; prepares memory while there is nothing to compute
 *     failed      a step has failed: `failed` was called once, and nothing runs any more
 *
 * Threads: as said at each call; _step the engine thread, or a simulation in place of _start.
 * Memory:  the model and the engine; the messages of one step. Errors: opening fails with the
 *          model's status, which _wait_ready returns; a step that fails calls `failed`. */
#ifndef MR_WORKER_ENGINE_ENGINE_THREAD_H
#define MR_WORKER_ENGINE_ENGINE_THREAD_H

#include "worker/base/clock.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/engine/engine_source.h"
#include "worker/ticket/engine_port.h"

#include <stdatomic.h>

struct mr_engine_thread;

struct mr_engine_thread_options {
    struct mr_engine_source source; /* closed by _destroy */
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

/* How intake and publish are reached; given before the first submission. */
struct mr_engine_thread_links {
    struct mr_mailbox *publish, *intake;
    const struct mr_wake *intake_wake; /* rung when a tenant that intake wants has room again */
};

struct mr_engine_thread_stats {
    struct mr_engine_stats engine;
    uint64_t steps;   /* rises while the thread is alive, at least once a second when it has work */
    uint64_t step_ns; /* when the last one ended, monotonic */
    bool idle;        /* it sleeps because there is nothing to compute */
};

enum mr_status mr_engine_thread_create(struct mr_engine_thread **out,
                                       const struct mr_engine_thread_options *options,
                                       struct mr_error *err);
/* Starts the thread, which begins to open the model. */
enum mr_status mr_engine_thread_start(struct mr_engine_thread *thread, struct mr_error *err);
/* See worker/base/thread.h. */
uint64_t mr_engine_thread_step(struct mr_engine_thread *thread, struct mr_time now);
/* Blocks until the model is open and the engine made, or that has failed. */
enum mr_status mr_engine_thread_wait_ready(struct mr_engine_thread *thread, struct mr_error *err);
/* Once, after it is ready. */
void mr_engine_thread_link(struct mr_engine_thread *thread,
                           const struct mr_engine_thread_links *links);

/* After it is ready; any thread. */
struct mr_engine_port mr_engine_thread_port(struct mr_engine_thread *thread);
const struct mr_model_info *mr_engine_thread_model(const struct mr_engine_thread *thread);
const struct mr_tokenizer *mr_engine_thread_tokenizer(const struct mr_engine_thread *thread);
uint32_t mr_engine_thread_context_tokens(const struct mr_engine_thread *thread);
struct mr_engine_thread_stats mr_engine_thread_stats(struct mr_engine_thread *thread);

/* A step has something to do. Threads: any. */
void mr_engine_thread_wake(struct mr_engine_thread *thread);
/* Requests that have not started return to intake (MR_MAIL_RETURNED); running ones continue. */
void mr_engine_thread_drain(struct mr_engine_thread *thread);
/* Lets the present step end, ends the thread and frees all. A request inside gets no result. thread
 * may be NULL. */
void mr_engine_thread_destroy(struct mr_engine_thread *thread);

#endif
