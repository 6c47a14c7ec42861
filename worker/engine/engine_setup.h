/* engine_setup - from the configuration to an open model and an engine over it: the one place where
 * options become model and engine options.
 *
 * Threads: the engine thread (the model stays with the thread that opened it).
 * Memory:  the caller closes the model and destroys the engine, in the other order.
 * Errors:  MR_BAD_CONFIG for values that only the model can judge, else those of the two modules.
 */
#ifndef MR_WORKER_ENGINE_ENGINE_SETUP_H
#define MR_WORKER_ENGINE_ENGINE_SETUP_H

#include "batching/engine.h"
#include "worker/config/config.h"

/* progress may be NULL: see ops/model.h. */
enum mr_status
mr_engine_setup_model(const struct mr_config *config,
                      void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                      void *progress_context, struct mr_model **out, struct mr_error *err);
enum mr_status mr_engine_setup_engine(const struct mr_config *config, struct mr_model *model,
                                      const struct mr_sink *sink, const struct mr_tier *tier,
                                      struct mr_engine **out, struct mr_error *err);

/* The longest sequence: the model's, or less where --context-tokens or the KV pool says so. */
uint32_t mr_engine_setup_context(const struct mr_config *config, const struct mr_model_info *info);

#endif
