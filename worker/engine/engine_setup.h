/* engine_setup - opens the model of a configuration and makes an engine for that model: the one
 * place where the worker's options become model and engine options.
 *
 * Threads: the engine thread: the model stays with the thread that opened it.
 * Memory:  the caller destroys the engine, then closes the model. Errors: MR_BAD_CONFIG for option
 *          values that do not fit the model, else the errors of the model and the engine. */
#ifndef MR_WORKER_ENGINE_ENGINE_SETUP_H
#define MR_WORKER_ENGINE_ENGINE_SETUP_H

#include "ops/model/model_plan.h"
#include "worker/adapters/adapters.h"
#include "worker/base/log.h"
#include "worker/config/config.h"
#include "worker/engine/engine_source.h"
#include "worker/engine/machine.h"

/* Opens the configuration's model. progress: called while the weights load; may be NULL. */
enum mr_status
mr_engine_setup_model(const struct mr_config *config,
                      void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                      void *progress_context, struct mr_model **out, struct mr_error *err);
/* Checks the options of the model (device, dtype, sizes) without its files. MR_BAD_CONFIG. */
enum mr_status mr_engine_setup_check(const struct mr_config *config, struct mr_error *err);
/* Computes the memory that a model will need on this machine with these options, before the model
 * is opened. */
enum mr_status mr_engine_setup_plan(const struct mr_config *config,
                                    const struct mr_model_source *source, struct mr_model_plan *out,
                                    struct mr_error *err);
enum mr_status mr_engine_setup_engine(const struct mr_config *config, struct mr_model *model,
                                      const struct mr_engine_user *user,
                                      const struct mr_remote_cache *remote, struct mr_engine **out,
                                      struct mr_error *err);

/* The length in tokens of the longest sequence: the least of the model's limit, --context-tokens
 * and the size of the KV pool. */
uint32_t mr_engine_setup_context(const struct mr_config *config, const struct mr_model_info *info);

/* Opens the configuration's model and makes its engine for the engine thread, and logs how much of
 * the model is loaded. */
struct mr_engine_setup {
    const struct mr_config *config;
    /* the model's files, read before; borrowed until `open`, which takes the content. NULL: none */
    struct mr_model_source *source;
    const struct mr_remote_cache *remote; /* the KV cache in Redis, borrowed; NULL: none */
    struct mr_adapters *adapters;         /* opened with the model; borrowed; NULL: none */
    struct mr_log *log;
    const char *machine_root;  /* see mr_machine_read; NULL: the machine itself */
    struct mr_machine machine; /* filled by `open` */
    uint32_t thread_count;     /* filled by `open`: threads that compute */
    /* The fields below are private. */
    struct mr_model *model;
    struct mr_engine *engine;
    uint64_t progress_ns; /* when the last progress line was logged */
};

/* Returns a source whose functions use setup; setup must live longer than that source. */
struct mr_engine_source mr_engine_setup_source(struct mr_engine_setup *setup);

#endif
