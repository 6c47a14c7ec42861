/* model_port - the calls the engine makes on a model, as a table. In the program they go to
 * ops/model.h; in tests and in the simulation to a fake.
 *
 * Owner: engine thread. Errors: forward and sample MR_BACKEND. */
#ifndef MR_BATCHING_BASE_MODEL_PORT_H
#define MR_BATCHING_BASE_MODEL_PORT_H

#include "ops/model.h"

struct mr_model_port {
    void *context;
    uint32_t vocab_size;
    enum mr_status (*forward)(void *context, const struct mr_batch *batch, struct mr_error *err);
    enum mr_status (*sample)(void *context, const struct mr_sample_row *rows, uint32_t count,
                             struct mr_sample *samples, struct mr_error *err);
    /* Copies a logit row of the last forward to host memory. */
    enum mr_status (*logits)(void *context, uint32_t row, float *out, struct mr_error *err);
    /* Size of the stored form of token_count tokens of a block; export and import of these tokens
     * from place.first on (ops/model.h). */
    size_t (*kv_bytes)(void *context, uint32_t token_count);
    enum mr_status (*kv_export)(void *context, struct mr_kv_place place, uint32_t token_count,
                                void *bytes);
    enum mr_status (*kv_import)(void *context, struct mr_kv_place place, uint32_t token_count,
                                const void *bytes);
    /* A full block's stored form in the pool, which other threads may read or fill while no step
     * writes the block. NULL: the pool has another form, or the CPU cannot address it. */
    void *(*kv_bytes_of)(void *context, uint32_t block);
    uint32_t layer_count; /* parts of equal size that a full block's stored form can be cut into */
    void (*kv_copy)(void *context, struct mr_kv_place from, struct mr_kv_place to,
                    uint32_t token_count);
    /* Monotonic ns for the cost model. NULL in tests with virtual time. */
    uint64_t (*clock_ns)(void *context);
};

/* The table over a loaded model. clock_ns: the worker's clock. */
struct mr_model_port mr_model_port_of(struct mr_model *model, uint64_t (*clock_ns)(void *context));

#endif
