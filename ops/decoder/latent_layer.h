/* latent_layer - the latent attention of a layer (ops/mixer/latent_shape.h) as operations of a
 * backend.
 *
 * Owner: engine thread. Memory: none. Errors: none. */
#ifndef MR_OPS_DECODER_LATENT_LAYER_H
#define MR_OPS_DECODER_LATENT_LAYER_H

#include "ops/backend/latent.h"
#include "ops/families/model_config.h"
#include "ops/weights/latent_weights.h"

/* Sets the widths of the buffers of attention (enum mr_step_buffer); does nothing in models without
 * latent attention. */
void mr_latent_set_widths(const struct mr_model_config *config, uint32_t widths[MR_BUFFER_COUNT]);

/* Computes q in MR_QKV from MR_NORMED, and writes the latents of all staged rows to the pool. */
void mr_latent_write(const struct mr_backend *backend, struct mr_step *step,
                     const struct mr_model_config *config, const struct mr_latent_weights *weights,
                     const struct mr_attention *attention, uint32_t rows);
/* MR_ATTENDED = the attention of the staged rows. */
void mr_latent_attend(const struct mr_backend *backend, struct mr_step *step,
                      const struct mr_model_config *config, const struct mr_latent_weights *weights,
                      const struct mr_attention *attention);

#endif
