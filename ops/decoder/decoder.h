/* decoder - the forward pass of the model: one loop over the layers, whose differences struct
 * mr_model_config describes.
 *
 * A step computes all rows up to the keys and values of the last layer. After that it computes only
 * the rows whose logits are needed (the last logit_rows rows of each sequence), followed by those
 * whose hidden states are needed.
 *
 * On a device with steps_ahead 2 (ops/backend/backend.h) two steps take turns: one is launched
 * while the other is in flight. Results are those of the step finished last; the step in flight
 * does not change them.
 *
 * State:  step buffers for rows_max rows and sequences_max sequences, with steps_ahead 2 twice; the
 *         results of the last step.
 * Owner:  engine thread. Memory: allocated in _create. The device, weights, rope tables and the KV
 *         pool are borrowed. Errors: those of the backend (ops/backend/backend.h). */
#ifndef MR_OPS_DECODER_DECODER_H
#define MR_OPS_DECODER_DECODER_H

#include "ops/decoder/batch.h"
#include "ops/decoder/kv_groups.h"
#include "ops/decoder/rope_table.h"
#include "ops/decoder/state_pool.h"
#include "ops/weights/weights.h"

struct mr_decoder;

struct mr_decoder_spec {
    const struct mr_model_config *config;
    const struct mr_weights *weights;
    const struct mr_rope_table *ropes; /* [config->rope_count] */
    struct mr_kv_groups *kv;
    struct mr_state_pool *states; /* NULL: the model has no recurrent layers */
    struct mr_compute *compute;   /* the device of weights and kv */
    uint32_t rows_max, sequences_max;
    uint32_t rank_max; /* as in struct mr_step_spec; 0: sequences have no adapters */
};

enum mr_status mr_decoder_create(struct mr_decoder **out, const struct mr_decoder_spec *spec,
                                 struct mr_error *err);
void mr_decoder_destroy(struct mr_decoder *decoder);
/* Returns the size of the step buffers in bytes. */
uint64_t mr_decoder_bytes(const struct mr_decoder *decoder);

/* Returns the steps_ahead of the backend, 0 to 2 (ops/backend/backend.h). 0: the device does not
 * search its logits, and _logits is the only result of a step. */
uint32_t mr_decoder_steps_ahead(const struct mr_decoder *decoder);
/* Enqueues one step on the device. Asserts that the batch is within the limits of the spec, the
 * vocabulary and the rope table, and that there is room for a step in flight. The caller keeps the
 * block ids of the batch in place until _finish. fed: rows whose tokens the previously launched
 * step draws (`from` is ignored), or NULL. */
void mr_decoder_launch(struct mr_decoder *decoder, const struct mr_batch *batch,
                       const struct mr_fed_rows *fed);
/* Records the steps of `rows` decoding sequences of at most `tokens` tokens each as a graph, which
 * _launch then replays (ops/backend/backend.h). No step may be in flight. MR_UNSUPPORTED: the
 * backend or an operation of the model has no graphs; MR_BACKEND, MR_NOMEM. */
enum mr_status mr_decoder_record(struct mr_decoder *decoder, uint32_t rows, uint32_t tokens,
                                 struct mr_error *err);
/* Adds a query to the list of the step launched last, and enqueues the search for all queries of
 * the list (ops/backend/backend.h); asserts that the query's row is one of the needed ones. A
 * finished step may be searched again, and is in flight then. */
void mr_decoder_query(struct mr_decoder *decoder, const struct mr_logit_query *query);
void mr_decoder_search(struct mr_decoder *decoder);
/* Waits for the oldest step in flight, if any. After an error the device cannot be used. */
enum mr_status mr_decoder_finish(struct mr_decoder *decoder, struct mr_error *err);
/* Returns the logits of the row-th of the needed rows, counted in the order of the batch:
 * [vocab_size], borrowed until the next _launch. Call after _finish. Asserts that the row exists.
 * NULL: the device has failed. */
const float *mr_decoder_logits(const struct mr_decoder *decoder, uint32_t row,
                               struct mr_error *err);
/* Return the findings for query `index`, and the edited logits of its row, under the conditions of
 * _logits. */
struct mr_logit_findings mr_decoder_findings(const struct mr_decoder *decoder, uint32_t index);
const float *mr_decoder_edited(const struct mr_decoder *decoder, uint32_t index,
                               struct mr_error *err);

/* out[hidden_size] = the sum of the hidden states that the step kept for the index-th sequence with
 * hidden_rows. Asserts that the sequence exists. */
void mr_decoder_hidden(const struct mr_decoder *decoder, uint32_t index, float *out);

#endif
