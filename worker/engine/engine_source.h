/* engine_source - how the engine thread gets its engine: the model of the configuration
 * (worker/engine/engine_setup.h), or a fake model in a simulation.
 *
 * Threads: the engine thread calls all functions but close; the thread that frees the engine thread
 *          calls close. Memory: the source owns the model and the engine. Errors: open returns the
 *          status with which the model failed to open. */
#ifndef MR_WORKER_ENGINE_ENGINE_SOURCE_H
#define MR_WORKER_ENGINE_ENGINE_SOURCE_H

#include "batching/engine/engine.h"
#include "ops/model/model.h"

/* The result of `open`; everything in this struct belongs to the source. */
struct mr_engine_parts {
    struct mr_engine *engine;
    const struct mr_model_info *model;
    const struct mr_tokenizer *tokenizer;
    uint32_t context_tokens;
};

/* The callbacks of the module that uses the engine. */
struct mr_engine_user {
    struct mr_sink sink;
    /* called when the engine has work to do; see struct mr_engine_options */
    void (*wake)(void *context);
    void *context;
};

struct mr_engine_source {
    void *self;
    /* Opens the model, which takes seconds, and makes an engine for that model. */
    enum mr_status (*open)(void *self, const struct mr_engine_user *user,
                           struct mr_engine_parts *parts, struct mr_error *err);
    /* Prepares some of the memory that later requests will need; false: all of that memory is
     * prepared. */
    bool (*populate)(void *self);
    /* The monotonic time, for callbacks within an engine step, since computing takes time. */
    uint64_t (*clock_ns)(void *self);
    void (*close)(void *self); /* frees the result of `open`; called also after `open` has failed */
};

#endif
