/* engine_source - how the engine thread gets its engine: the model of the configuration
 * (worker/engine/engine_setup.h), or a fake model in a simulation.
 *
 * Threads: the engine thread; close by the thread that frees the engine thread. Memory: the
 *          source's. Errors: open fails with the model's status. */
#ifndef MR_WORKER_ENGINE_ENGINE_SOURCE_H
#define MR_WORKER_ENGINE_ENGINE_SOURCE_H

#include "batching/engine.h"
#include "ops/model.h"

/* What opening gives; it belongs to the source. */
struct mr_engine_parts {
    struct mr_engine *engine;
    const struct mr_model_info *model;
    const struct mr_tokenizer *tokenizer;
    uint32_t context_tokens;
};

/* Who uses the engine. */
struct mr_engine_user {
    struct mr_sink sink;
    void (*wake)(void *context); /* see mr_engine_options */
    void *context;
};

struct mr_engine_source {
    void *self;
    /* Opens the model, which takes seconds, and makes an engine over it. */
    enum mr_status (*open)(void *self, const struct mr_engine_user *user,
                           struct mr_engine_parts *parts, struct mr_error *err);
    /* Prepares some of the memory that requests will need; false: all of it is prepared. */
    bool (*populate)(void *self);
    /* Monotonic time within a step, whose computation takes time. */
    uint64_t (*clock_ns)(void *self);
    void (*close)(void *self); /* also after open has failed */
};

#endif
