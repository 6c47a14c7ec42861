/* model_port - a table of the functions that the engine calls on a model. In the program they are
 * those of ops/model.h; in tests and in the simulation those of a fake model.
 *
 * A step is launched and later collected: `launch` starts it, `collect` waits for its results.
 * While a device computes a launched step, the engine passes on the results of the step before
 * (batching/engine.h). Steps are collected in the order of their launches.
 *
 * With steps_ahead 2 a step is planned and launched before the tokens of the step before are known:
 * its rows refer to sampling rows of that step, and the device takes the tokens from there. A
 * sequence that turns out to have ended has a surplus row in the step that follows; its sample is
 * dropped.
 *
 * Order of effects: a device runs steps, kv_copy, kv_import and kv_export one after the other, in
 * the order of the calls, as on one stream. So blocks may be reused while steps in flight still use
 * them: a surplus row cannot write over anything that a later call has put in its place.
 *
 * Owner: engine thread. Errors: launch and collect return MR_BACKEND, collect for any step in
 * flight; no further step may be launched then. */
#ifndef MR_BATCHING_BASE_MODEL_PORT_H
#define MR_BATCHING_BASE_MODEL_PORT_H

#include "ops/model.h"

#define MR_STEPS_AHEAD_MAX 2u
#define MR_ROW_KNOWN       UINT32_MAX

/* A step to launch. All pointers are borrowed for the call of `launch`, except `samples`. */
struct mr_model_step {
    const struct mr_batch *batch; /* row_count 0: there is nothing to compute, only to sample */
    /* [batch->row_count] the sampling row of the step launched before whose token is the input of
     * this row of the batch; MR_ROW_KNOWN: the input is in batch->token_ids. NULL: all are known.
     */
    const uint32_t *fed_by;
    /* [sample_count] In a row whose sequence has a fed token, the last id of `history` is not known
     * yet; such a row has no penalties, bad words, mask or suppressed ids. */
    const struct mr_sample_row *rows;
    uint32_t sample_count;
    /* [sample_count] the caller's: the results of `rows`, complete when `collect` has returned */
    struct mr_sample *samples;
};

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

/* Returns the function table for a loaded model. steps_ahead is 1 for a backend with a queue
 * (torch), on the CPU too, where its `launch` computes the step; else 0. clock_ns: the worker's
 * monotonic clock. */
struct mr_model_port mr_model_port_of(struct mr_model *model, uint64_t (*clock_ns)(void *context));

#endif
