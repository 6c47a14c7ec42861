/* model_port - a table of the functions that the engine calls on a model. In the program they are
 * those of ops/model.h; in tests and in the simulation those of a fake model.
 *
 * Owner: engine thread. Errors: forward and sample return MR_BACKEND. */
#ifndef MR_BATCHING_BASE_MODEL_PORT_H
#define MR_BATCHING_BASE_MODEL_PORT_H

#include "ops/model.h"

struct mr_model_port {
    void *context;
    uint32_t vocab_size;
    enum mr_status (*forward)(void *context, const struct mr_batch *batch, struct mr_error *err);
    enum mr_status (*sample)(void *context, const struct mr_sample_row *rows, uint32_t count,
                             struct mr_sample *samples, struct mr_error *err);
    /* Copies one row of logits of the last forward pass to host memory. */
    enum mr_status (*logits)(void *context, uint32_t row, float *out, struct mr_error *err);
    /* kv_bytes: bytes of the stored form of the KV of token_count tokens of one block. kv_export
     * copies the KV of token_count tokens of a block, from token place.first on, into this form at
     * `bytes`; kv_import copies it from there into the block (ops/model.h). */
    size_t (*kv_bytes)(void *context, uint32_t token_count);
    enum mr_status (*kv_export)(void *context, struct mr_kv_place place, uint32_t token_count,
                                void *bytes);
    enum mr_status (*kv_import)(void *context, struct mr_kv_place place, uint32_t token_count,
                                const void *bytes);
    /* Address of a full block's KV in the KV pool, if the pool keeps it in the form that kv_export
     * writes: other threads may then read or write it while no step writes the block. NULL: the
     * pool keeps KV in another form, or the CPU cannot address the pool. */
    void *(*kv_bytes_of)(void *context, uint32_t block);
    /* parts of equal size, one for each layer, in kv_export's form of a full block */
    uint32_t layer_count;
    void (*kv_copy)(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count);
    /* Monotonic time in nanoseconds, to measure steps for the cost model. NULL in tests with
     * virtual time. */
    uint64_t (*clock_ns)(void *context);
};

/* Returns the function table for a loaded model. clock_ns: the worker's monotonic clock. */
struct mr_model_port mr_model_port_of(struct mr_model *model, uint64_t (*clock_ns)(void *context));

#endif
