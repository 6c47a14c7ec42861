/* step_queue - the steps of a model in flight, their draws, and the tokens of one step that are the
 * input of the next.
 *
 * At the launch the host draws the rows whose logits are in its memory. For every other row it
 * enqueues a query (ops/backend/logit_search.h) and makes the sample from the findings when the
 * step is collected. A token that feeds the next step was drawn by the host, or is in the device's
 * memory; then the findings, read later, name the same token.
 *
 * State:  the pending samples of up to mr_decoder_steps_ahead steps, at least one.
 * Owner:  engine thread. Memory: allocated in _create. The decoder is borrowed.
 * Errors: _create MR_NOMEM; the others MR_BACKEND when the device fails. */
#ifndef MR_OPS_MODEL_STEP_QUEUE_H
#define MR_OPS_MODEL_STEP_QUEUE_H

#include "ops/decoder/batch.h"
#include "ops/decoder/decoder.h"

struct mr_step_queue;

struct mr_step_queue_spec {
    struct mr_decoder *decoder;
    uint32_t vocab_size;
    uint32_t rows_max;    /* of a batch */
    uint32_t samples_max; /* sampling rows of a step */
};
enum mr_status mr_step_queue_create(struct mr_step_queue **out,
                                    const struct mr_step_queue_spec *spec, struct mr_error *err);
void mr_step_queue_destroy(struct mr_step_queue *queue);

/* Starts a step. Without rows in the batch it only draws: from logits in host memory, or, when no
 * step is in flight, from those of the last step. Asserts that there is room for a step. */
enum mr_status mr_step_queue_launch(struct mr_step_queue *queue, const struct mr_model_step *step,
                                    struct mr_error *err);
/* Waits for the oldest step in flight and completes its samples. MR_OK when none is in flight. */
enum mr_status mr_step_queue_collect(struct mr_step_queue *queue, struct mr_error *err);

#endif
