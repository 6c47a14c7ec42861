/* engine_setup - opens the model of a configuration and makes an engine over it: the one place
 * where options become model and engine options.
 *
 * Threads: the engine thread: the model stays with the thread that opened it.
 * Memory:  the caller destroys the engine, then closes the model. Errors: MR_BAD_CONFIG for values
 *          that only the model can judge, else those of the model and the engine. */
#ifndef MR_WORKER_ENGINE_ENGINE_SETUP_H
#define MR_WORKER_ENGINE_ENGINE_SETUP_H

#include "worker/base/log.h"
#include "worker/config/config.h"
#include "worker/engine/engine_source.h"

/* progress may be NULL: see ops/model.h. */
enum mr_status
mr_engine_setup_model(const struct mr_config *config,
                      void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                      void *progress_context, struct mr_model **out, struct mr_error *err);
enum mr_status mr_engine_setup_engine(const struct mr_config *config, struct mr_model *model,
                                      const struct mr_engine_user *user, const struct mr_tier *tier,
                                      struct mr_engine **out, struct mr_error *err);

/* Tokens of the longest sequence: the model's bound, --context-tokens or the KV pool, whichever is
 * least. */
uint32_t mr_engine_setup_context(const struct mr_config *config, const struct mr_model_info *info);

/* A source that opens the configuration's model and logs how far it is. */
struct mr_engine_setup {
    const struct mr_config *config;
    const struct mr_tier *tier; /* borrowed; NULL: none */
    struct mr_log *log;
    /* private */
    struct mr_model *model;
    struct mr_engine *engine;
    uint64_t progress_ns; /* of the last line */
};

/* setup outlives the source. */
struct mr_engine_source mr_engine_setup_source(struct mr_engine_setup *setup);

#endif
