/* latent - the kernels of latent attention (ops/mixer/latent_shape.h) around mr_cpu_attention,
 * which computes it from absorbed queries in a pool with value_dim (kv_kernels.h). Levels, types,
 * order of sums, threads and memory are those of kernels.h. */
#ifndef MR_OPS_CPU_KERNELS_LATENT_H
#define MR_OPS_CPU_KERNELS_LATENT_H

#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/mixer/latent_shape.h"

struct mr_cpu_latent {
    struct mr_latent_shape shape;
    uint32_t head_count;
    const struct mr_cpu_rope *rope; /* NULL: no rotary embedding */
    const float *norm;              /* [rank] weights of the latent's norm */
    /* A matrix for each head (ops/backend/latent.h). */
    const struct mr_cpu_linear *keys, *values;
};

/* For all rows of the attention's sequences: rotates q, norms the latent and rotates the key, and
 * writes both to the pool. q, latents: floats, rows of latent_shape.h; both are changed. */
void mr_cpu_latent_write(struct mr_cpu_kv *kv, const struct mr_cpu_attention_args *attention,
                         const struct mr_cpu_latent *latent, float *q, float *latents);
/* absorbed: floats, the queries of mr_cpu_attention for rotated q. */
void mr_cpu_latent_absorb(const struct mr_cpu_latent *latent, const float *q, uint32_t rows,
                          float *absorbed);
/* attended: numbers [rows][heads][padded rank], as mr_cpu_attention left them; out: numbers
 * [rows][heads][value_dim]. */
void mr_cpu_latent_values(const struct mr_cpu_latent *latent, const void *attended, uint32_t rows,
                          void *out);

#endif
