/* engine_thread - the thread that computes: opens the model, turns the engine's wheel, posts what
 * comes out to publish.
 *
 * Nothing else in the process may call LibTorch. What a step makes is copied into messages and
 * posted in one go when the step is over; when publish has no room the engine waits.
 *
 * Threads: as said at each call. Memory: the model and the engine; the messages of one step.
 * Errors:  opening fails with the model's status (_wait_ready says it); a step that fails calls
 *          `failed` once, from this thread, and the wheel stands still. */
#ifndef MR_WORKER_ENGINE_ENGINE_THREAD_H
#define MR_WORKER_ENGINE_ENGINE_THREAD_H

#include "batching/engine.h"
#include "worker/base/log.h"
#include "worker/base/mailbox.h"
#include "worker/config/config.h"

#include <stdatomic.h>

struct mr_engine_thread;

struct mr_engine_thread_options {
    const struct mr_config *config;
    const struct mr_tier *tier; /* borrowed; NULL: none */
    struct mr_log *log;
    void (*failed)(void *context, const struct mr_error *err);
    void *context;
};

/* How intake and publish are reached; given before the first submission. */
struct mr_engine_thread_links {
    struct mr_mailbox *publish, *intake;
    const struct mr_wake *intake_wake; /* rung when a hungry tenant has room again */
    atomic_uint_least64_t *hungry;     /* bit i: tenant i had no room when intake looked */
};

struct mr_engine_thread_stats {
    struct mr_engine_stats engine;
    uint64_t turns;     /* of the wheel: rises while the thread lives, at least once a second when
                           there is work */
    uint64_t turned_ns; /* when it last did */
    bool idle;          /* asleep for lack of work */
};

/* Starts the thread, which begins to open the model. */
enum mr_status mr_engine_thread_create(struct mr_engine_thread **out,
                                       const struct mr_engine_thread_options *options,
                                       struct mr_error *err);
/* Blocks until the model is open and the engine made, or that has failed. */
enum mr_status mr_engine_thread_wait_ready(struct mr_engine_thread *thread, struct mr_error *err);
/* Once, after it is ready. */
void mr_engine_thread_link(struct mr_engine_thread *thread,
                           const struct mr_engine_thread_links *links);

/* After it is ready; any thread. */
struct mr_engine *mr_engine_thread_engine(struct mr_engine_thread *thread);
const struct mr_model_info *mr_engine_thread_model(const struct mr_engine_thread *thread);
const struct mr_tokenizer *mr_engine_thread_tokenizer(const struct mr_engine_thread *thread);
uint32_t mr_engine_thread_context_tokens(const struct mr_engine_thread *thread);
struct mr_engine_thread_stats mr_engine_thread_stats(struct mr_engine_thread *thread);

/* Requests that have not started go back to intake (MR_MAIL_RETURNED); running ones go on. */
void mr_engine_thread_drain(struct mr_engine_thread *thread);
/* Ends after the present step; what is still inside gets no result. Joins and frees all. */
void mr_engine_thread_destroy(struct mr_engine_thread *thread);

#endif
