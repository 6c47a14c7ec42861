#include "ops/weights/latent_weights.h"

#include <stdlib.h>
#include <string.h>

static enum mr_status load_down(struct mr_weight_loader *loader, uint32_t layer,
                                struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    const struct mr_latent_shape *latent = &c->latent;
    struct mr_linear_plan plan = {.layer = layer, .width = c->hidden_size};
    if (latent->query_rank > 0)
        plan.shares[plan.share_count++] =
            (struct mr_share_plan){.part = MR_WEIGHT_Q_A, .rows = latent->query_rank};
    plan.shares[plan.share_count++] =
        (struct mr_share_plan){.part = MR_WEIGHT_KV_A, .rows = latent->rank + latent->rope_dim};
    return mr_weight_loader_linear(loader, &plan, out);
}

static enum mr_status load_query(struct mr_weight_loader *loader, uint32_t layer,
                                 struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    const uint32_t rank = c->latent.query_rank;
    const struct mr_linear_plan plan = {
        .layer = layer,
        .width = rank > 0 ? rank : c->hidden_size,
        .shares = {{.part = rank > 0 ? MR_WEIGHT_Q_B : MR_WEIGHT_Q,
                    .rows = c->head_count * mr_latent_head(&c->latent)}},
        .share_count = 1};
    return mr_weight_loader_linear(loader, &plan, out);
}

/* ---- U_k and U_v ---- */

/* The rows of keys or values of all heads. */
struct head_rows {
    const struct mr_latent_shape *shape;
    const float *stored; /* [heads][nope_dim, then value_dim][rank] */
    uint32_t padded;     /* rows of a head, including padding */
};

static void read_key_row(void *context, uint32_t row, float *out)
{
    const struct head_rows *rows = context;
    const struct mr_latent_shape *shape = rows->shape;
    const uint32_t head = row / rows->padded, column = row % rows->padded;
    const uint32_t each = shape->nope_dim + shape->value_dim;
    for (uint32_t i = 0; i < shape->nope_dim; i++)
        out[i] = column < shape->rank
                     ? rows->stored[((size_t)head * each + i) * shape->rank + column]
                     : 0.0f;
}

static void read_value_row(void *context, uint32_t row, float *out)
{
    const struct head_rows *rows = context;
    const struct mr_latent_shape *shape = rows->shape;
    const uint32_t head = row / rows->padded, index = row % rows->padded;
    const size_t each = shape->nope_dim + shape->value_dim;
    memset(out, 0, mr_latent_value(shape) * sizeof(*out));
    if (index < shape->value_dim)
        memcpy(out, rows->stored + (head * each + shape->nope_dim + index) * shape->rank,
               shape->rank * sizeof(*out));
}

static enum mr_status create_heads(struct mr_weight_loader *loader,
                                   const struct mr_linear_spec *spec, struct mr_linear **out)
{
    struct mr_compute *compute = loader->spec->compute;
    if (loader->checks_only) {
        if (compute)
            loader->packed_bytes +=
                (uint64_t)spec->out_size * spec->in_size * mr_number_bytes(compute->number);
        return MR_OK;
    }
    enum mr_status status = compute->backend->linear_create(compute, out, spec, loader->err);
    if (status == MR_OK) loader->packed_bytes += compute->backend->linear_bytes(*out);
    return status;
}

static enum mr_status load_heads(struct mr_weight_loader *loader, uint32_t layer,
                                 struct mr_latent_weights *to)
{
    const struct mr_model_config *c = loader->spec->config;
    const struct mr_latent_shape *shape = &c->latent;
    const struct mr_weight_place place = {MR_WEIGHT_KV_B, layer, 0};
    const uint32_t count = c->head_count * (shape->nope_dim + shape->value_dim) * shape->rank;
    float *stored = NULL;
    enum mr_status status = mr_weight_loader_read(loader, place, count, 0.0f, &stored);
    if (status != MR_OK) return status;
    loader->packed_bytes -= count * sizeof(float); /* the floats are freed below */
    struct head_rows keys = {shape, stored, mr_latent_value(shape)};
    struct head_rows values = {shape, stored, mr_latent_padded(shape->value_dim)};
    const struct mr_linear_spec key_spec = {.out_size = c->head_count * keys.padded,
                                            .in_size = shape->nope_dim,
                                            .source = read_key_row,
                                            .source_context = &keys,
                                            .heads = c->head_count};
    const struct mr_linear_spec value_spec = {.out_size = c->head_count * values.padded,
                                              .in_size = mr_latent_value(shape),
                                              .source = read_value_row,
                                              .source_context = &values,
                                              .heads = c->head_count};
    status = create_heads(loader, &key_spec, &to->keys);
    if (status == MR_OK) status = create_heads(loader, &value_spec, &to->values);
    free(stored);
    return status;
}

/* ---- all parts ---- */

enum mr_status mr_latent_weights_load(struct mr_weight_loader *loader, uint32_t layer,
                                      struct mr_latent_weights *to, struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    const struct mr_weight_place query_norm = {MR_WEIGHT_Q_A_NORM, layer, 0};
    const struct mr_weight_place norm = {MR_WEIGHT_KV_A_NORM, layer, 0};
    const struct mr_linear_plan last = {
        .layer = layer,
        .width = c->head_count * c->latent.value_dim,
        .shares = {{.part = MR_WEIGHT_ATTENTION_OUT, .rows = c->hidden_size}},
        .share_count = 1,
        .scale = c->residual_scale};
    enum mr_status status = load_down(loader, layer, &to->down);
    if (status == MR_OK) status = load_query(loader, layer, &to->query);
    if (status == MR_OK && c->latent.query_rank > 0)
        status = mr_weight_loader_vector(loader, query_norm, c->latent.query_rank, 0.0f,
                                         &to->query_norm);
    if (status == MR_OK)
        status = mr_weight_loader_vector(loader, norm, c->latent.rank, 0.0f, &to->norm);
    if (status == MR_OK) status = load_heads(loader, layer, to);
    return status == MR_OK ? mr_weight_loader_linear(loader, &last, out) : status;
}

void mr_latent_weights_destroy(struct mr_latent_weights *latent, const struct mr_backend *backend)
{
    backend->vector_destroy(latent->query_norm);
    backend->vector_destroy(latent->norm);
    backend->linear_destroy(latent->down);
    backend->linear_destroy(latent->query);
    backend->linear_destroy(latent->keys);
    backend->linear_destroy(latent->values);
}
