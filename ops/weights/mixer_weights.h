/* mixer_weights - loads the recurrent part of a layer. Files store the rows of the input layer in
 * several orders and tensors; the loaded layers have the order of ops/mixer/mixer_shape.h.
 *
 * Threads, memory, errors: as ops/weights/weight_loader.h. */
#ifndef MR_OPS_WEIGHTS_MIXER_WEIGHTS_H
#define MR_OPS_WEIGHTS_MIXER_WEIGHTS_H

#include "ops/weights/weight_loader.h"

struct mr_mixer_weights {
    struct mr_linear *in;    /* [row width, hidden_size]; NULL: the layer has no recurrent part */
    struct mr_linear *gates; /* [gates width, hidden_size]; NULL for CONV */
    struct mr_linear *out;   /* [hidden_size, out width] */
    /* As in struct mr_mixer (ops/backend/step.h). */
    struct mr_vector *taps, *bias, *decay, *dt_bias, *skip, *norm;
};

/* After an error the caller destroys the part that was loaded. */
enum mr_status mr_mixer_weights_load(struct mr_weight_loader *loader, uint32_t layer,
                                     struct mr_mixer_weights *to);
/* Destroying zeroed weights does nothing. */
void mr_mixer_weights_destroy(struct mr_mixer_weights *mixer, const struct mr_backend *backend);

#endif
