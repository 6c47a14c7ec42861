/* latent_weights - loads latent attention (ops/mixer/latent_shape.h). Files store U_k and U_v of
 * all heads in one tensor, head after head. They become two layers with a matrix for each head,
 * which are never computed in small integers.
 *
 * Threads, memory, errors: as ops/weights/weight_loader.h. */
#ifndef MR_OPS_WEIGHTS_LATENT_WEIGHTS_H
#define MR_OPS_WEIGHTS_LATENT_WEIGHTS_H

#include "ops/weights/weight_loader.h"

struct mr_latent_weights {
    /* [query_rank + rank + rope_dim, hidden_size]; NULL: the layer has no latent attention */
    struct mr_linear *down;
    struct mr_linear *query; /* [heads * (nope_dim + rope_dim), query_rank or hidden_size] */
    struct mr_vector *query_norm, *norm; /* [query_rank] or NULL; [rank] */
    struct mr_linear *keys, *values;     /* as in struct mr_latent (ops/backend/latent.h) */
};

/* out: the layer after attention. After an error the caller destroys the part that was loaded. */
enum mr_status mr_latent_weights_load(struct mr_weight_loader *loader, uint32_t layer,
                                      struct mr_latent_weights *to, struct mr_linear **out);
/* Destroying zeroed weights does nothing. */
void mr_latent_weights_destroy(struct mr_latent_weights *latent, const struct mr_backend *backend);

#endif
