/* backend - the functions that the decoder needs from a device, as one table. ops/cpu/ fills the
 * table with our own CPU kernels, ops/torch/ with LibTorch's operators. The decoder, the weights,
 * the KV groups and the model use only this table.
 *
 * Objects: all are created by an opened device (struct mr_compute), live in its memory, and are
 * destroyed before it is closed. _destroy takes NULL.
 *
 * Step: the buffers of a step are one object. An operation names its buffers (enum mr_step_buffer)
 * and works on their first `rows` rows. Operations may run later than the call: their results are
 * complete only after `finish`. Only `stage` and `keep` copy the host's data of a step (token ids,
 * block tables) to the device. An operation that fails makes the following ones do nothing;
 * `finish` returns its error, after which the device is unusable.
 *
 * With steps_ahead 2 two step objects take turns: the decoder stages one before it finishes the
 * other, and the staged step may take token ids from the other's search. The device runs the
 * operations of both, and those of KV pools, in the order of the calls.
 *
 * Owner: the engine thread makes all calls, from `open` on. Memory: a step of the backend cpu
 * allocates none; LibTorch allocates its intermediate results.
 * Errors: `open` and the `_create` functions return them. */
#ifndef MR_OPS_BACKEND_BACKEND_H
#define MR_OPS_BACKEND_BACKEND_H

#include "ops/backend/expert_layer.h"
#include "ops/backend/logit_search.h"

struct mr_backend;
struct mr_compute { /* an opened device; a backend appends fields of its own */
    const struct mr_backend *backend;
    enum mr_number number;
};

struct mr_backend {
    const char *name;
    bool numbers[3];      /* by enum mr_number: the formats that the backend computes in */
    bool integer_weights; /* linear_create takes bands */
    bool int8_kv;         /* kv_create takes specs with int8 */
    /* Exported blocks of models without and with sliding-window slots. Backends with the same
     * layout and `numerics` may exchange blocks. */
    const char *kv_layout, *kv_layout_sliding;

    /* ---- devices ---- */
    /* MR_BAD_CONFIG: the device cannot be used; the error names the missing part. */
    enum mr_status (*open)(struct mr_compute **out, struct mr_device device, enum mr_number number,
                           struct mr_error *err);
    void (*close)(struct mr_compute *compute);
    /* Bytes of the device's own memory that are free; 0: it uses the memory of the process. */
    uint64_t (*free_bytes)(const struct mr_compute *compute);
    /* 0: logits are in host memory, and `query` and `search` are NULL. 1: operations may run
     * later than the call. 2: as 1, and the device draws every token, so two steps may take
     * turns. */
    uint32_t (*steps_ahead)(const struct mr_compute *compute);
    /* Kernels that round differently have different names. */
    const char *(*numerics)(const struct mr_compute *compute);

    /* ---- weights ---- */
    /* Copies `count` floats of the host. */
    enum mr_status (*vector_create)(struct mr_compute *compute, struct mr_vector **out,
                                    const float *numbers, uint32_t count, struct mr_error *err);
    void (*vector_destroy)(struct mr_vector *vector);
    enum mr_status (*rope_create)(struct mr_compute *compute, struct mr_rope **out,
                                  const struct mr_rope_spec *spec, struct mr_error *err);
    void (*rope_destroy)(struct mr_rope *rope);
    enum mr_status (*linear_create)(struct mr_compute *compute, struct mr_linear **out,
                                    const struct mr_linear_spec *spec, struct mr_error *err);
    void (*linear_destroy)(struct mr_linear *linear);
    size_t (*linear_bytes)(const struct mr_linear *linear);
    const struct mr_low_rank_functions *low_rank; /* of adapters (ops/backend/adapters.h) */

    /* ---- KV pool ---- */
    size_t (*kv_block_bytes)(const struct mr_kv_spec *spec);
    enum mr_status (*kv_create)(struct mr_compute *compute, struct mr_kv **out,
                                const struct mr_kv_spec *spec, struct mr_error *err);
    void (*kv_destroy)(struct mr_kv *kv);
    /* Makes the next 2 MiB of the pool resident; false when all of it is. */
    bool (*kv_populate)(struct mr_kv *kv);
    void (*kv_copy)(struct mr_kv *kv, uint32_t from, uint32_t to, uint32_t token_count);
    size_t (*kv_stored_bytes)(const struct mr_kv *kv, uint32_t token_count, bool int8);
    /* Returns the memory of a full block if it is host memory in the stored form, else NULL. */
    void *(*kv_bytes_of)(const struct mr_kv *kv, uint32_t block);
    /* Finished steps, kv_copy or kv_import wrote the tokens. False: NaN or 2^127 fit no int8. */
    bool (*kv_export)(const struct mr_kv *kv, const struct mr_kv_span *span, void *bytes);
    void (*kv_import)(struct mr_kv *kv, const struct mr_kv_span *span, const void *bytes);

    /* ---- a step ---- */
    enum mr_status (*step_create)(struct mr_compute *compute, struct mr_step **out,
                                  const struct mr_step_spec *spec, struct mr_error *err);
    void (*step_destroy)(struct mr_step *step);
    uint64_t (*step_bytes)(const struct mr_step *step);
    /* Begins a step: copies token_ids [rows] and the sequences, which are in the order of their
     * rows. The caller keeps the block ids in place until `finish`. fed: NULL with steps_ahead
     * below 2, and when the host knows every token id. */
    void (*stage)(struct mr_step *step, const uint32_t *token_ids, uint32_t rows,
                  const struct mr_step_sequence *sequences, uint32_t count,
                  const struct mr_fed_rows *fed);
    /* Drops the other rows of the step: moves row rows[i] of MR_RESIDUAL, MR_NORMED, MR_QKV and
     * MR_MIXED to row i. rows: ascending, one for each row of `sequences`, which is [count]. */
    void (*keep)(struct mr_step *step, const uint32_t *rows,
                 const struct mr_step_sequence *sequences, uint32_t count);
    /* MR_RESIDUAL = scale * the rows of `table` for the staged token ids. */
    void (*embed)(struct mr_step *step, const struct mr_linear *table, float scale);
    /* MR_RESIDUAL += a row of `table` for each row of the step: row type * types_at + position. */
    void (*embed_positions)(struct mr_step *step, const struct mr_vector *table, uint32_t types_at);
    /* norm_residual: MR_RESIDUAL = norm(MR_RESIDUAL). norm: MR_NORMED = norm(MR_RESIDUAL), or
     * MR_RESIDUAL itself if norm is NULL. */
    void (*norm_residual)(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
    void (*norm)(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
    /* MR_RESIDUAL += norm(MR_BRANCH). */
    void (*norm_add)(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
    /* `to` gets the layer's results for the rows of `from`, a buffer of numbers. */
    void (*linear)(struct mr_step *step, const struct mr_linear *linear, enum mr_step_buffer from,
                   uint32_t rows, enum mr_epilogue epilogue, enum mr_step_buffer to);
    /* Norms and rotates q and k in MR_QKV, and writes k and v of all staged rows to the pool. */
    void (*rope_write)(struct mr_step *step, const struct mr_attention *attention);
    /* MR_ATTENDED = attention of the staged rows, q from MR_QKV; causal without `attends`. */
    void (*attend)(struct mr_step *step, const struct mr_attention *attention);
    const struct mr_mixer_ops *mixers;  /* recurrent layers */
    const struct mr_latent_ops *latent; /* latent attention */
    /* layer->to += the experts that MR_ROUTING chooses for the rows of MR_NORMED, by rising id. */
    void (*experts)(struct mr_step *step, const struct mr_expert_layer *layer, uint32_t rows);
    /* MR_RESIDUAL += sigmoid(MR_SWITCHES) * linear(MR_GATED): a shared expert. */
    void (*add_switched)(struct mr_step *step, const struct mr_linear *linear, uint32_t rows);
    /* MR_LOGITS = cap * tanh(MR_LOGITS / cap). */
    void (*softcap)(struct mr_step *step, float cap, uint32_t rows);
    /* graph_create and graph_replay are NULL in a backend without graphs. `graph_create` records
     * the operations that spec->walk calls, so that the device can repeat them without the host.
     * Recording runs them once and writes no KV. The step owns its graphs. MR_UNSUPPORTED: an
     * operation needs the host. `graph_replay` is called after `stage` when every row of the staged
     * step is a sequence of its own with logits. It replays a graph for as many rows or more and
     * pads the rest. False: no graph has room for the step, and nothing has run. */
    enum mr_status (*graph_create)(struct mr_step *step, const struct mr_graph_spec *spec,
                                   struct mr_error *err);
    bool (*graph_replay)(struct mr_step *step);
    /* `query` adds a query to a list and copies its arrays. The first query after a `search` or
     * `stage` begins a new list. `search` ends a step, with or without queries: it draws the
     * tokens, or finds in MR_LOGITS the numbers that a draw depends on. */
    void (*query)(struct mr_step *step, const struct mr_logit_query *query);
    void (*search)(struct mr_step *step);
    /* Waits for the operations of the step, up to its last `search`. */
    enum mr_status (*finish)(struct mr_step *step, struct mr_error *err);
    /* ---- after `finish`, until the next `stage` of the step: findings of query `index` ---- */
    struct mr_logit_findings (*findings)(struct mr_step *step, uint32_t index);
    /* Row `row` of the logits, or the edited row of query `index`, in host memory; NULL: error. */
    const float *(*logits)(struct mr_step *step, uint32_t row, struct mr_error *err);
    const float *(*edited)(struct mr_step *step, uint32_t index, struct mr_error *err);
    /* out[width] = the sum of rows [row, row + count) of MR_NORMED. */
    void (*sum_normed)(struct mr_step *step, uint32_t row, uint32_t count, float *out);
};

#endif
