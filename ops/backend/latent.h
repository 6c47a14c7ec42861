/* latent - the operations of a backend (ops/backend/backend.h) for models with latent attention
 * (ops/mixer/latent_shape.h).
 *
 * Owner: engine thread. Memory: buffers of the step. Errors: none. */
#ifndef MR_OPS_BACKEND_LATENT_H
#define MR_OPS_BACKEND_LATENT_H

#include "ops/backend/backend.h"
#include "ops/mixer/latent_shape.h"

/* The latent attention of a layer. `attention` has its pool, rope, scale and window. */
struct mr_latent {
    struct mr_attention attention;
    struct mr_latent_shape shape;
    const struct mr_vector *query_norm; /* [query_rank]; NULL if that is 0 */
    const struct mr_vector *norm;       /* [rank] */
    /* A matrix for each head, one after the other. keys: U_k^T of a head, [padded rank, nope_dim];
     * values: U_v, [padded value_dim, padded rank]. Padding is zeros. */
    const struct mr_linear *keys, *values;
};

struct mr_latent_ops {
    /* MR_QUERY_LATENT = norm(the first query_rank numbers of MR_LATENTS). */
    void (*norm_queries)(struct mr_step *step, const struct mr_latent *latent, uint32_t rows);
    /* Rotates q in MR_QKV. Norms the latents in MR_LATENTS, rotates the keys and writes both for
     * all staged rows to the pool. */
    void (*write)(struct mr_step *step, const struct mr_latent *latent);
    /* MR_ATTENDED = attention of the staged rows, [heads][value_dim], q from MR_QKV. */
    void (*attend)(struct mr_step *step, const struct mr_latent *latent);
};

#endif
