/* latent_shape - the sizes of latent attention (DeepSeek-AI, "DeepSeek-V2", 2024), and the layout
 * of its rows.
 *
 * A token has one latent row of `rank` numbers and one rotary key of `rope_dim` numbers for all
 * heads. The key of a head is U_k latent, followed by the rotary key; its value is U_v latent. The
 * KV pool holds only the latent, after its norm, and the rotary key. Attention is computed in the
 * absorbed form, which never expands them: the query of a head becomes U_k^T q, `rank` numbers that
 * multiply the latent itself, and U_v is applied to the weighted sum of the latents. So there is
 * one kv head for all query heads, whose value is the first part of its key.
 *
 * Rows: q         [heads][nope_dim, then rope_dim]
 *       latents   [query_rank, then rank, then rope_dim]
 *       absorbed  [heads][rank, then rope_dim], each padded with zeros to a multiple of 16; the key
 *                 of a token has the same layout
 *
 * Threads: pure functions. Memory: plain values. Errors: none. */
#ifndef MR_OPS_MIXER_LATENT_SHAPE_H
#define MR_OPS_MIXER_LATENT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_LATENT_MAX 1024u /* largest rank */

struct mr_latent_shape {
    uint32_t rank;       /* 0: the model has no latent attention */
    uint32_t rope_dim;   /* rotary numbers of a query head, and of a token's key */
    uint32_t nope_dim;   /* numbers of a query head without rotary embedding */
    uint32_t value_dim;  /* of a head */
    uint32_t query_rank; /* q is computed from a normed row of query_rank numbers; 0: from the
                          * layer's input */
    float norm_epsilon;  /* of the norms of the latent and of the queries' row */
    bool
        pairs; /* the rotary embedding turns numbers 2i and 2i + 1; false: i and i + rope_dim / 2 */
};

static inline uint32_t mr_latent_padded(uint32_t size)
{
    return (size + 15u) / 16u * 16u;
}

/* Numbers of a head of q. */
static inline uint32_t mr_latent_head(const struct mr_latent_shape *shape)
{
    return shape->nope_dim + shape->rope_dim;
}

/* Numbers of a token's value in the KV pool: the padded latent. */
static inline uint32_t mr_latent_value(const struct mr_latent_shape *shape)
{
    return mr_latent_padded(shape->rank);
}

/* Numbers of a token's key in the KV pool. */
static inline uint32_t mr_latent_key(const struct mr_latent_shape *shape)
{
    return mr_latent_value(shape) + mr_latent_padded(shape->rope_dim);
}

/* Numbers of a row of latents. */
static inline uint32_t mr_latent_row(const struct mr_latent_shape *shape)
{
    return shape->query_rank + shape->rank + shape->rope_dim;
}

#endif
