#include "ops/decoder/latent_layer.h"

void mr_latent_set_widths(const struct mr_model_config *config, uint32_t widths[MR_BUFFER_COUNT])
{
    const struct mr_latent_shape *shape = &config->latent;
    const uint32_t heads = config->head_count;
    if (shape->rank == 0) return;
    widths[MR_QKV] = heads * mr_latent_head(shape);
    widths[MR_ATTENDED] = heads * shape->value_dim;
    widths[MR_LATENTS] = mr_latent_row(shape);
    widths[MR_QUERY_LATENT] = shape->query_rank;
    widths[MR_ABSORBED] = heads * mr_latent_key(shape);
    widths[MR_ATTENDED_LATENTS] = heads * mr_latent_value(shape);
}

static struct mr_latent latent_of(const struct mr_model_config *config,
                                  const struct mr_latent_weights *weights,
                                  const struct mr_attention *attention)
{
    return (struct mr_latent){.attention = *attention,
                              .shape = config->latent,
                              .query_norm = weights->query_norm,
                              .norm = weights->norm,
                              .keys = weights->keys,
                              .values = weights->values};
}

void mr_latent_write(const struct mr_backend *backend, struct mr_step *step,
                     const struct mr_model_config *config, const struct mr_latent_weights *weights,
                     const struct mr_attention *attention, uint32_t rows)
{
    const struct mr_latent latent = latent_of(config, weights, attention);
    enum mr_step_buffer from = MR_NORMED;
    backend->linear(step, weights->down, MR_NORMED, rows, MR_STORE, MR_LATENTS);
    if (latent.query_norm) {
        backend->latent->norm_queries(step, &latent, rows);
        from = MR_QUERY_LATENT;
    }
    backend->linear(step, weights->query, from, rows, MR_STORE, MR_QKV);
    backend->latent->write(step, &latent);
}

void mr_latent_attend(const struct mr_backend *backend, struct mr_step *step,
                      const struct mr_model_config *config, const struct mr_latent_weights *weights,
                      const struct mr_attention *attention)
{
    const struct mr_latent latent = latent_of(config, weights, attention);
    backend->latent->attend(step, &latent);
}
