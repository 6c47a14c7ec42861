/* decoder - the forward pass of the model: one loop over the layers; struct mr_model_config says
 * how the layers differ.
 *
 * A step computes all rows up to the keys and values of the last layer. After that it computes only
 * the rows whose logits are wanted: the last logit_rows rows of each sequence; and after them those
 * whose hidden states are.
 *
 * State:  step buffers for rows_max rows and sequences_max sequences; the logits of the last step.
 * Owner:  engine thread. Memory: allocated in _create. The device, weights, rope tables and the KV
 *         pool are borrowed. Errors: those of the backend (ops/backend/backend.h). */
#ifndef MR_OPS_DECODER_H
#define MR_OPS_DECODER_H

#include "ops/batch.h"
#include "ops/kv_groups.h"
#include "ops/rope_table.h"
#include "ops/weights.h"

struct mr_decoder;

struct mr_decoder_spec {
    const struct mr_model_config *config;
    const struct mr_weights *weights;
    const struct mr_rope_table *ropes; /* [config->rope_count] */
    struct mr_kv_groups *kv;
    struct mr_compute *compute; /* the device of weights and kv */
    uint32_t rows_max, sequences_max;
};

enum mr_status mr_decoder_create(struct mr_decoder **out, const struct mr_decoder_spec *spec,
                                 struct mr_error *err);
void mr_decoder_destroy(struct mr_decoder *decoder);
/* Returns the size of the step buffers in bytes. */
uint64_t mr_decoder_bytes(const struct mr_decoder *decoder);

/* Runs one step. Asserts that the batch is within the limits of the spec, the vocabulary and the
 * rope table. After an error the device cannot be used. */
enum mr_status mr_decoder_forward(struct mr_decoder *decoder, const struct mr_batch *batch,
                                  struct mr_error *err);
/* Returns the logits of the row-th of the wanted rows of the last mr_decoder_forward, counted in
 * the order of the batch: [vocab_size], borrowed until the next mr_decoder_forward. Asserts that
 * there is such a row. */
const float *mr_decoder_logits(const struct mr_decoder *decoder, uint32_t row);

/* out[hidden_size] = the sum of the hidden states that the last mr_decoder_forward kept for the
 * index-th sequence with hidden_rows. Asserts that there is such a sequence. */
void mr_decoder_hidden(const struct mr_decoder *decoder, uint32_t index, float *out);

#endif
