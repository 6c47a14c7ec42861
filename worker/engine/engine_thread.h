/* engine_thread - the thread that computes: opens the model, runs the engine step by step, and
 * posts the output of each step to publish.
 *
 * No other thread of the process may call LibTorch. The output of a step is copied into messages
 * that are posted together after the step. While publish's mailbox has no space, the messages are
 * kept and no step runs. The phases of the thread:
 *
 *     opening     opens the model, which blocks for seconds
 *     unlinked    waits for mr_engine_thread_link, and prepares memory
 *     running     computes one engine step per call; prepares memory while it has no request
 *     failed      a step has failed: `failed` was called once, and nothing runs any more
 *
 * Threads: each function names them. The engine thread calls _step; a simulation calls _step
 *          itself instead of _start.
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
    struct mr_engine_source source; /* source of the engine; closed by _destroy */
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

/* The mailboxes of intake and publish, and intake's wake. Set them before the first request is
 * submitted. */
struct mr_engine_thread_links {
    struct mr_mailbox *publish, *intake;
    /* notified when the engine's queue has space again for a tenant that intake waits for */
    const struct mr_wake *intake_wake;
    /* set when a step fails, before `failed` is called: one of the running requests may be the
     * cause. NULL: not used */
    atomic_bool *step_failed;
};

struct mr_engine_thread_stats {
    struct mr_engine_stats engine;
    /* calls of the thread's step so far; increases at least once a second while there is work */
    uint64_t steps;
    uint64_t step_ns; /* monotonic time at which the last step ended */
    bool idle;        /* the thread sleeps because there is nothing to compute */
};

enum mr_status mr_engine_thread_create(struct mr_engine_thread **out,
                                       const struct mr_engine_thread_options *options,
                                       struct mr_error *err);
/* Starts the engine thread, which begins to open the model. */
enum mr_status mr_engine_thread_start(struct mr_engine_thread *thread, struct mr_error *err);
/* The body of the engine thread; for its return value see worker/base/thread.h. */
uint64_t mr_engine_thread_step(struct mr_engine_thread *thread, struct mr_time now);
/* The wake of the engine thread, for a simulation that calls the step itself. */
const struct mr_wake *mr_engine_thread_step_wake(const struct mr_engine_thread *thread);
/* Blocks until the model is open and the engine is made, or until opening has failed. */
enum mr_status mr_engine_thread_wait_ready(struct mr_engine_thread *thread, struct mr_error *err);
/* Whether opening has failed already; does not wait. Threads: any. */
bool mr_engine_thread_has_failed(struct mr_engine_thread *thread);
/* Connects the engine thread to intake and publish. Call once, after _wait_ready has returned
 * MR_OK. */
void mr_engine_thread_link(struct mr_engine_thread *thread,
                           const struct mr_engine_thread_links *links);

/* The functions by which intake reaches the engine. Call after _wait_ready has returned MR_OK, from
 * any thread. */
struct mr_engine_port mr_engine_thread_port(struct mr_engine_thread *thread);
const struct mr_model_info *mr_engine_thread_model(const struct mr_engine_thread *thread);
const struct mr_tokenizer *mr_engine_thread_tokenizer(const struct mr_engine_thread *thread);
uint32_t mr_engine_thread_context_tokens(const struct mr_engine_thread *thread);
struct mr_engine_thread_stats mr_engine_thread_stats(struct mr_engine_thread *thread);

/* Wakes the engine thread, because a step has something to do. Threads: any. */
void mr_engine_thread_wake(struct mr_engine_thread *thread);
/* Starts draining: requests that have not started return to intake (MR_MAIL_RETURNED); running
 * requests continue. */
void mr_engine_thread_drain(struct mr_engine_thread *thread);
/* Waits for the current engine step and ends the thread. The tokenizer, which intake may be using,
 * and the engine are not freed. Requests still in the engine get no result. thread may be NULL. */
void mr_engine_thread_stop(struct mr_engine_thread *thread);
/* _stop, unless it was called; then frees everything. thread may be NULL. */
void mr_engine_thread_destroy(struct mr_engine_thread *thread);

#endif
