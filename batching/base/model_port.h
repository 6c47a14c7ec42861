/* model_port - a table of the functions that the engine calls on a model. In the program they are
 * those of ops/model/model.h; in tests and in the simulation those of a fake model.
 *
 * A step is launched and later collected: `launch` starts it, `collect` waits for its results.
 * While a device computes a launched step, the engine passes on the results of the step before
 * (batching/engine/engine.h). Steps are collected in the order of their launches.
 *
 * With steps_ahead 2 a step is planned and launched before the tokens of the step before are known:
 * its rows refer to sampling rows of that step, and the device takes the tokens from there. A
 * sequence that turns out to have ended has a surplus row in the step that follows; its sample is
 * dropped.
 *
 * Order of effects: a device runs steps, kv_copy and kv_import one after the other, in the order of
 * the calls, as on one stream. So blocks may be reused while steps in flight still use them: a
 * surplus row cannot write over anything that a later call has put in its place. kv_export does not
 * wait for the steps in flight, because they do not write the KV that it copies.
 *
 * Owner: engine thread. Errors: launch and collect return MR_BACKEND, collect for any step in
 * flight; no further step may be launched then. */
#ifndef MR_BATCHING_BASE_MODEL_PORT_H
#define MR_BATCHING_BASE_MODEL_PORT_H

#include "ops/model/model.h"

struct mr_model_port {
    void *context;
    uint32_t vocab_size;
    /* Steps that may be in flight while the engine does other work, at most MR_STEPS_AHEAD_MAX. 0:
     * `launch` computes the whole step itself, so the engine collects the step at once. 1: the next
     * step is launched when this one was collected. 2: before this one is collected; kv_bytes_of
     * must be NULL then. */
    uint32_t steps_ahead;
    /* Starts a step: computes the rows of the batch, writes their KV, and samples. */
    enum mr_status (*launch)(void *context, const struct mr_model_step *step, struct mr_error *err);
    /* Waits until the oldest step in flight has ended. Also called for steps in flight when the
     * engine is destroyed. */
    enum mr_status (*collect)(void *context, struct mr_error *err);
    /* Copies one row of logits of the step collected last to host memory. Called before the next
     * launch; with steps_ahead 2 the step after it is in flight already. */
    enum mr_status (*logits)(void *context, uint32_t row, float *out, struct mr_error *err);
    /* out[hidden_size] = the sum of the hidden states that the step collected last kept for its
     * index-th sequence with hidden_rows. Called as `logits` is. NULL: requests for embeddings are
     * refused. */
    enum mr_status (*hidden)(void *context, uint32_t index, float *out, struct mr_error *err);
    uint32_t hidden_size;
    enum mr_model_pooling pooling;     /* of requests that choose none */
    const struct mr_text_heads *heads; /* layers after the pooling, borrowed; NULL: none */
    /* The model is an encoder: it has no logits, a step computes a prompt as a whole, and its KV
     * serves no later step. */
    bool whole_prompts;
    /* kv_bytes: bytes of the stored form of the KV of token_count tokens of one block. kv_export
     * copies the KV of token_count tokens of a block, from token place.first on, into this form at
     * `bytes`; this KV is from collected steps, copies or imports. kv_import copies it from there
     * into the block (ops/model/model.h). */
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
    /* Copies a state of recurrent layers to another slot of the state pool; NULL: the model has no
     * such layers. */
    void (*state_copy)(void *context, uint32_t from, uint32_t to);
    /* Monotonic time in nanoseconds, to measure steps for the cost model. NULL in tests with
     * virtual time. */
    uint64_t (*clock_ns)(void *context);
};

/* Returns the function table for a loaded model. steps_ahead is that of its backend: 0 for cpu; 1
 * for torch, on the CPU too, where its `launch` computes the step; 2 for torch with our kernels.
 * clock_ns: the worker's monotonic clock. */
struct mr_model_port mr_model_port_of(struct mr_model *model, uint64_t (*clock_ns)(void *context));

#endif
