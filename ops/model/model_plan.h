/* model_plan - the memory that a model needs, computed from the headers of its files for `millrace
 * check`: no weight is read and no memory is reserved. Weights of AWQ and GPTQ folders are assumed
 * to be computed with the integers of the files. Weights with a scale that is not an fp16 number
 * take more memory.
 *
 * Threads: pure functions; a GPU is opened and closed again. Memory: none kept. Errors: MR_BAD_FILE
 * and MR_NOMEM as for mr_model_check_files; MR_BAD_CONFIG as for mr_model_check_options. */
#ifndef MR_OPS_MODEL_MODEL_PLAN_H
#define MR_OPS_MODEL_MODEL_PLAN_H

#include "ops/model/model.h"

struct mr_model_plan {
    uint64_t parameter_count;
    uint64_t stored_bytes; /* of all tensors in the files */
    uint64_t weight_bytes; /* of the weights in memory (struct mr_weights_size) */
    const char *dtype; /* number format in which the weights are computed, such as "bf16"; static */
    uint64_t kv_bytes_per_token; /* of one token's KV in all layers */
    const char *kv_dtype;        /* of the KV; static */
    uint64_t kv_pool_bytes;      /* of all KV blocks and slots */
    uint32_t state_slots;        /* as in struct mr_model_info */
    uint64_t state_bytes;
    uint64_t pool_tokens;   /* tokens that the blocks of the pool hold */
    uint64_t device_bytes;  /* free on a GPU before the model is there; 0: on the CPU */
    uint32_t context_asked; /* --context-tokens; 0: not given */
    /* longest sequence: the least of the model's context, context_asked and the tokens that the
     * pool holds */
    uint32_t context_tokens;
};

/* source: open files with their tensors. options: as for mr_model_open; path and source are
 * ignored. */
enum mr_status mr_model_plan_make(struct mr_model_plan *out, const struct mr_model_source *source,
                                  const struct mr_model_options *options, struct mr_error *err);

#endif
