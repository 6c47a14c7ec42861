#include "ops/weights/weights.h"

#include "codec/check.h"
#include "ops/files/gguf_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- norms ---- */

static enum mr_status load_norm(struct mr_weight_loader *loader, enum mr_weight_part part,
                                uint32_t layer, struct mr_norm_weights *out)
{
    const struct mr_model_config *c = loader->spec->config;
    const struct mr_weight_place place = {part, layer, 0};
    float offset = c->family->norm_offset && !loader->spec->gguf_names ? 1.0f : 0.0f;
    enum mr_status status =
        mr_weight_loader_vector(loader, place, c->hidden_size, offset, &out->weight);
    if (status == MR_OK && c->family->centered_norms &&
        (!c->family->norms_without_bias || mr_weight_loader_has_bias(loader, place)))
        status = mr_weight_loader_bias(loader, place, c->hidden_size, &out->bias);
    return status;
}

/* Reads the weights of the norm of q or k, which the files store once for all heads, for all heads
 * in one tensor, or in a tensor for each head. Sets *stored to the stored weights, and *heads to
 * the number of heads in them. */
static enum mr_status read_head_norm(struct mr_weight_loader *loader, struct mr_weight_place place,
                                     uint32_t head_count, float **stored, uint32_t *heads)
{
    const struct mr_model_config *c = loader->spec->config;
    float offset = c->family->norm_offset && !loader->spec->gguf_names ? 1.0f : 0.0f;
    *heads = c->head_norm == MR_HEAD_NORM_EACH ? 1 : head_count;
    if (c->head_norm != MR_HEAD_NORM_CENTERED || c->family->joint_head_norms ||
        loader->spec->gguf_names)
        return mr_weight_loader_read(loader, place, *heads * c->head_dim, offset, stored);
    *stored = calloc((size_t)head_count * c->head_dim, sizeof(float));
    if (!*stored)
        return mr_fail(loader->err, MR_NOMEM, "no memory for the norms of %u heads", *heads);
    for (place.index = 0; place.index < head_count; place.index++) {
        float *one = NULL;
        enum mr_status status = mr_weight_loader_read(loader, place, c->head_dim, 0.0f, &one);
        if (status != MR_OK) return status;
        if (one)
            memcpy(*stored + (size_t)place.index * c->head_dim, one, c->head_dim * sizeof(float));
        free(one);
    }
    return MR_OK;
}

/* Writes the norm of a head in the order of the packed rows: files with q and k in pair order have
 * its weights in that order too. */
static void order_head_norm(const struct mr_weight_loader *loader, const float *stored, float *out)
{
    const struct mr_model_config *c = loader->spec->config;
    const uint32_t pairs = mr_model_config_pair_dim(c, loader->spec->gguf_names) / 2;
    memcpy(out, stored, c->head_dim * sizeof(float));
    for (uint32_t i = 0; i < pairs; i++) {
        out[i] = stored[2 * i];
        out[i + pairs] = stored[2 * i + 1];
    }
}

/* out: [head_count * padded], zeros past head_dim of each head. */
static enum mr_status load_head_norm(struct mr_weight_loader *loader, struct mr_weight_place place,
                                     uint32_t head_count, struct mr_vector **out)
{
    const struct mr_model_config *c = loader->spec->config;
    uint32_t padded = mr_model_config_padded_head(c), heads;
    float *stored = NULL, *all = NULL;
    enum mr_status status = read_head_norm(loader, place, head_count, &stored, &heads);
    if (status == MR_OK && !loader->checks_only) {
        all = calloc((size_t)head_count * padded, sizeof(float));
        if (!all)
            status =
                mr_fail(loader->err, MR_NOMEM, "no memory for the norms of %u heads", head_count);
        for (uint32_t head = 0; all && head < head_count; head++)
            order_head_norm(loader, stored + (size_t)(head % heads) * c->head_dim,
                            all + (size_t)head * padded);
    }
    free(stored);
    return mr_weight_loader_upload(loader, status, all, head_count * padded, out);
}

/* ---- attention ---- */

/* True when the linear layers of the files are [in, out]. */
static bool transposed(const struct mr_weight_loader *loader)
{
    return loader->spec->config->family->transposed && !loader->spec->gguf_names;
}

/* Makes the shares of q, k and v parts of one tensor. */
static void share_qkv(const struct mr_weight_loader *loader, struct mr_linear_plan *plan)
{
    const struct mr_model_config *c = loader->spec->config;
    const bool by_group = c->family->fused_by_group && !loader->spec->gguf_names;
    const uint32_t groups = by_group ? c->kv_head_count : 1;
    const uint32_t all = plan->shares[0].rows + 2 * plan->shares[1].rows;
    for (uint32_t i = 0, first = 0; i < 3; i++) {
        struct mr_share_plan *share = &plan->shares[i];
        const uint32_t take = share->rows / groups;
        share->part = MR_WEIGHT_QKV;
        share->first = first;
        share->all = all;
        if (by_group) share->groups = (struct mr_row_groups){all / groups, take};
        first += take;
    }
    plan->transposed = transposed(loader);
}

/* True when the gates of attention are a tensor of their own. */
static bool has_own_gate(const struct mr_weight_loader *loader, uint32_t layer)
{
    return mr_weight_loader_has(loader,
                                (struct mr_weight_place){MR_WEIGHT_ATTENTION_GATE, layer, 0});
}

static enum mr_status load_qkv(struct mr_weight_loader *loader, uint32_t layer,
                               struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    bool pairs = mr_model_config_pair_dim(c, loader->spec->gguf_names) > 0;
    uint32_t q = c->head_count * c->head_dim, kv = c->kv_head_count * c->head_dim;
    struct mr_linear_plan plan = {
        .layer = layer,
        .width = c->hidden_size,
        .shares = {{.part = MR_WEIGHT_Q, .rows = q, .rotary_pairs = pairs},
                   {.part = MR_WEIGHT_K, .rows = kv, .rotary_pairs = pairs},
                   {.part = MR_WEIGHT_V, .rows = kv}},
        .share_count = 3};
    for (uint32_t i = 0; i < 3; i++)
        plan.shares[i].heads = true;
    if (mr_weight_loader_scales(loader)) {
        for (uint32_t i = 0; i < 3; i++)
            plan.shares[i].scale = c->scales.attention_in;
        plan.shares[1].scale *= c->scales.key;
        plan.shares[1].bias_scale = c->scales.key;
    }
    if (c->family->gated_attention && !has_own_gate(loader, layer)) {
        plan.shares[0].all = 2 * q;
        plan.shares[0].groups = (struct mr_row_groups){2 * c->head_dim, c->head_dim};
    }
    if (mr_weight_loader_has(loader, (struct mr_weight_place){MR_WEIGHT_QKV, layer, 0}))
        share_qkv(loader, &plan);
    return mr_weight_loader_linear(loader, &plan, out);
}

/* The gates of attention: where they have no tensor of their own, the rows of a head's gate are
 * stored after those of its q. */
static enum mr_status load_attention_gate(struct mr_weight_loader *loader, uint32_t layer,
                                          struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    const uint32_t q = c->head_count * c->head_dim;
    struct mr_linear_plan plan = {.layer = layer,
                                  .width = c->hidden_size,
                                  .shares = {{.part = MR_WEIGHT_Q,
                                              .rows = q,
                                              .first = c->head_dim,
                                              .all = 2 * q,
                                              .heads = true,
                                              .groups = {2 * c->head_dim, c->head_dim}}},
                                  .share_count = 1};
    if (has_own_gate(loader, layer))
        plan.shares[0] =
            (struct mr_share_plan){.part = MR_WEIGHT_ATTENTION_GATE, .rows = q, .heads = true};
    return mr_weight_loader_linear(loader, &plan, out);
}

static enum mr_status load_attention(struct mr_weight_loader *loader, uint32_t layer,
                                     struct mr_layer_weights *to)
{
    const struct mr_model_config *c = loader->spec->config;
    struct mr_linear_plan out = {
        .layer = layer,
        .width = c->head_count * c->head_dim,
        .shares = {{.part = MR_WEIGHT_ATTENTION_OUT, .rows = c->hidden_size}},
        .share_count = 1,
        .head_columns = true,
        .transposed = transposed(loader),
        .scale =
            c->residual_scale * (mr_weight_loader_scales(loader) ? c->scales.attention_out : 1.0f)};
    enum mr_status status = load_qkv(loader, layer, &to->qkv);
    if (status == MR_OK && c->head_norm != MR_HEAD_NORM_NONE)
        status = load_head_norm(loader, (struct mr_weight_place){MR_WEIGHT_Q_NORM, layer, 0},
                                c->head_count, &to->q_norm);
    if (status == MR_OK && c->head_norm != MR_HEAD_NORM_NONE)
        status = load_head_norm(loader, (struct mr_weight_place){MR_WEIGHT_K_NORM, layer, 0},
                                c->kv_head_count, &to->k_norm);
    if (status == MR_OK && c->family->gated_attention)
        status = load_attention_gate(loader, layer, &to->attention_gate);
    if (status == MR_OK && c->family->sinks)
        status =
            mr_weight_loader_vector(loader, (struct mr_weight_place){MR_WEIGHT_SINKS, layer, 0},
                                    c->head_count, 0.0f, &to->sinks);
    if (status == MR_OK) status = mr_weight_loader_linear(loader, &out, &to->attention_out);
    return status;
}

/* ---- the feed-forward network ---- */

/* Reads the numbers of a layer's xIELU. The first two are stored as numbers of which log(1 + e^x)
 * is taken, without an overflow of e^x. */
static enum mr_status read_curve(struct mr_weight_loader *loader, uint32_t layer, float curve[4])
{
    enum mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < 4; i++) {
        const struct mr_weight_place place = {MR_WEIGHT_CURVE_ABOVE + i, layer, 0};
        float *one = NULL;
        status = mr_weight_loader_read(loader, place, 1, 0.0f, &one);
        if (one) curve[i] = i < 2 ? fmaxf(*one, 0.0f) + log1pf(expf(-fabsf(*one))) : *one;
        free(one);
    }
    curve[1] += curve[2];
    return status;
}

static enum mr_status load_gate_up(struct mr_weight_loader *loader, uint32_t layer,
                                   struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    uint32_t ffn = c->ffn_size;
    struct mr_linear_plan up = {.layer = layer,
                                .width = c->hidden_size,
                                .shares = {{.part = MR_WEIGHT_UP, .rows = ffn}},
                                .share_count = 1,
                                .transposed = transposed(loader)};
    enum mr_status status = MR_OK;
    if (c->family->plain_ffn && c->activation == MR_ACTIVATION_XIELU)
        status = read_curve(loader, layer, up.curve);
    if (status != MR_OK) return status;
    if (c->family->plain_ffn) return mr_weight_loader_linear(loader, &up, out);
    struct mr_linear_plan plan = {.layer = layer,
                                  .width = c->hidden_size,
                                  .share_count = 2,
                                  .alternate = true,
                                  .gated = true};
    for (uint32_t i = 0; i < 2; i++)
        plan.shares[i] =
            c->family->fused && mr_weight_loader_has(
                                    loader, (struct mr_weight_place){MR_WEIGHT_GATE_UP, layer, 0})
                ? (struct mr_share_plan){.part = MR_WEIGHT_GATE_UP,
                                         .rows = ffn,
                                         .first = i * ffn,
                                         .all = 2 * ffn}
                : (struct mr_share_plan){.part = i == 0 ? MR_WEIGHT_GATE : MR_WEIGHT_UP,
                                         .rows = ffn};
    if (mr_weight_loader_scales(loader))
        plan.shares[0].scale = plan.shares[0].bias_scale = c->scales.gate;
    return mr_weight_loader_linear(loader, &plan, out);
}

static enum mr_status load_ffn(struct mr_weight_loader *loader, uint32_t layer,
                               struct mr_layer_weights *to)
{
    const struct mr_model_config *c = loader->spec->config;
    if (c->routed[layer]) return mr_expert_weights_load(loader, layer, &to->experts);
    struct mr_linear_plan down = {
        .layer = layer,
        .width = c->ffn_size,
        .shares = {{.part = MR_WEIGHT_DOWN, .rows = c->hidden_size}},
        .share_count = 1,
        .transposed = transposed(loader),
        .scale = c->residual_scale * (mr_weight_loader_scales(loader) ? c->scales.down : 1.0f)};
    enum mr_status status = load_gate_up(loader, layer, &to->gate_up);
    return status == MR_OK ? mr_weight_loader_linear(loader, &down, &to->down) : status;
}

/* ---- the model ---- */

static enum mr_status load_layer(struct mr_weight_loader *loader, uint32_t layer,
                                 struct mr_layer_weights *to)
{
    const struct mr_model_config *c = loader->spec->config;
    const bool by_kind = c->family->norm_by_kind, mixes = c->mixes[layer];
    const bool before = c->family->norm_before && (!by_kind || mixes);
    const bool after = (c->family->norm_after || c->family->norm_sum) && !(by_kind && mixes);
    const bool tokens = mixes || !c->skips_attention[layer];
    const struct {
        enum mr_weight_part part;
        bool wanted;
        struct mr_norm_weights *norm;
    } norms[] = {
        {MR_WEIGHT_ATTENTION_NORM, before && tokens && !(layer == 0 && c->family->bare_first_layer),
         &to->attention_norm},
        {MR_WEIGHT_ATTENTION_POST_NORM, after && tokens, &to->attention_post_norm},
        {MR_WEIGHT_FFN_NORM, before && (!c->parallel || c->own_ffn_norm) && !c->skips_ffn[layer],
         &to->ffn_norm},
        {MR_WEIGHT_FFN_POST_NORM, after && !c->skips_ffn[layer], &to->ffn_post_norm},
    };
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < sizeof(norms) / sizeof(norms[0]); i++)
        if (norms[i].wanted) status = load_norm(loader, norms[i].part, layer, norms[i].norm);
    if (status == MR_OK && c->latent.rank > 0)
        status = mr_latent_weights_load(loader, layer, &to->latent, &to->attention_out);
    else if (status == MR_OK && !c->skips_attention[layer])
        status = load_attention(loader, layer, to);
    if (status == MR_OK && c->mixes[layer])
        status = mr_mixer_weights_load(loader, layer, &to->mixer);
    if (status == MR_OK && !c->skips_ffn[layer]) status = load_ffn(loader, layer, to);
    return status;
}

static enum mr_status load_table(struct mr_weight_loader *loader, enum mr_weight_part part,
                                 struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    struct mr_linear_plan plan = {.width = c->hidden_size,
                                  .shares = {{.part = part, .rows = c->vocab_size}},
                                  .share_count = 1,
                                  .scale = c->logit_scale,
                                  .table = part == MR_WEIGHT_EMBEDDING};
    return mr_weight_loader_linear(loader, &plan, out);
}

/* Makes one table of both embeddings. */
static enum mr_status load_positions(struct mr_weight_loader *loader, struct mr_weights *weights)
{
    const struct mr_model_config *c = loader->spec->config;
    const uint32_t width = c->hidden_size, types = c->type_count > 0 ? c->type_count : 1;
    const uint32_t positions = c->position_rows > 0 ? c->context_tokens : 1;
    const uint32_t count = types * positions * width;
    float *places = NULL, *kinds = NULL, *both = NULL;
    enum mr_status status = MR_OK;
    if (c->position_rows > 0)
        status = mr_weight_loader_read(loader, (struct mr_weight_place){MR_WEIGHT_POSITIONS, 0, 0},
                                       c->position_rows * width, 0.0f, &places);
    if (status == MR_OK && c->type_count > 0)
        status =
            mr_weight_loader_read(loader, (struct mr_weight_place){MR_WEIGHT_TOKEN_TYPES, 0, 0},
                                  types * width, 0.0f, &kinds);
    if (status == MR_OK && !loader->checks_only) {
        both = calloc(count, sizeof *both);
        if (!both) status = mr_fail(loader->err, MR_NOMEM, "no memory for position embeddings");
        for (uint32_t i = 0; both && i < count; i++) {
            const uint32_t row = i / width % positions + c->first_position;
            both[i] = (places ? places[(size_t)row * width + i % width] : 0.0f) +
                      (kinds ? kinds[(size_t)(i / width / positions) * width + i % width] : 0.0f);
        }
    }
    free(places);
    free(kinds);
    weights->positions_per_type = positions;
    return mr_weight_loader_upload(loader, status, both, count, &weights->positions);
}

/* When the output layer is tied to the token embedding, an output tensor in the file is a copy of
 * the embedding and is ignored. */
static enum mr_status load_embedding_and_head(struct mr_weight_loader *loader,
                                              struct mr_weights *weights)
{
    const struct mr_model_config *c = loader->spec->config;
    enum mr_status status = load_table(loader, MR_WEIGHT_EMBEDDING, &weights->embedding);
    if (status == MR_OK && (c->position_rows > 0 || c->type_count > 0))
        status = load_positions(loader, weights);
    if (status == MR_OK && c->family->norm_embedding)
        status = load_norm(loader, MR_WEIGHT_EMBEDDING_NORM, 0, &weights->embedding_norm);
    if (status == MR_OK && !c->family->no_final_norm)
        status = load_norm(loader, MR_WEIGHT_FINAL_NORM, 0, &weights->final_norm);
    if (status != MR_OK) return status;
    if (c->family->encoder) return MR_OK;
    if (!c->tied_head) return load_table(loader, MR_WEIGHT_HEAD, &weights->head);
    weights->head = weights->embedding;
    mr_weight_loader_ignore(loader, (struct mr_weight_place){MR_WEIGHT_HEAD, 0, 0});
    return MR_OK;
}

static enum mr_status load_all(struct mr_weight_loader *loader, struct mr_weights *weights)
{
    static const char *const read_before[] = {MR_GGUF_ROPE_FREQS, MR_GGUF_ROPE_SHORT,
                                              MR_GGUF_ROPE_LONG};
    enum mr_status status = mr_weight_loader_begin(loader);
    for (size_t i = 0; status == MR_OK && loader->spec->gguf_names &&
                       i < sizeof(read_before) / sizeof(read_before[0]);
         i++)
        mr_weight_loader_ignore_name(loader, read_before[i]);
    for (uint32_t i = 0; status == MR_OK && i < weights->layer_count; i++) {
        status = load_layer(loader, i, &weights->layers[i]);
        mr_weight_loader_next_layer(loader);
    }
    if (status == MR_OK) status = load_embedding_and_head(loader, weights);
    return status == MR_OK ? mr_weight_loader_reject_unused(loader) : status;
}

static enum mr_status load(struct mr_weights *out, const struct mr_weights_spec *spec,
                           bool checks_only, struct mr_error *err)
{
    *out = (struct mr_weights){0};
    struct mr_weights weights = {.backend = spec->compute ? spec->compute->backend : NULL,
                                 .layer_count = spec->config->layer_count,
                                 .expert_count = spec->config->experts.count};
    weights.layers = calloc(weights.layer_count, sizeof(*weights.layers));
    if (!weights.layers) return mr_fail(err, MR_NOMEM, "no memory for the table of layers");
    struct mr_weight_loader loader = {.spec = spec, .err = err, .checks_only = checks_only};
    enum mr_status status = load_all(&loader, &weights);
    mr_weight_loader_end(&loader);
    weights.parameter_count = loader.parameter_count;
    weights.packed_bytes = loader.packed_bytes;
    weights.quantized = loader.quantized;
    if (status != MR_OK) {
        mr_weights_destroy(&weights);
        return status;
    }
    *out = weights;
    return MR_OK;
}

enum mr_status mr_weights_load(struct mr_weights *out, const struct mr_weights_spec *spec,
                               struct mr_error *err)
{
    return load(out, spec, false, err);
}

enum mr_status mr_weights_check(const struct mr_weights_spec *spec, struct mr_weights_size *size,
                                struct mr_error *err)
{
    struct mr_weights weights;
    enum mr_status status = load(&weights, spec, true, err);
    if (size)
        *size = (struct mr_weights_size){weights.parameter_count, weights.packed_bytes,
                                         weights.quantized};
    mr_weights_destroy(&weights);
    return status;
}

static void destroy_norm(const struct mr_backend *backend, struct mr_norm_weights *norm)
{
    backend->vector_destroy(norm->weight);
    backend->vector_destroy(norm->bias);
}

static void destroy_layer(const struct mr_backend *backend, struct mr_layer_weights *layer)
{
    destroy_norm(backend, &layer->attention_norm);
    destroy_norm(backend, &layer->attention_post_norm);
    destroy_norm(backend, &layer->ffn_norm);
    destroy_norm(backend, &layer->ffn_post_norm);
    backend->vector_destroy(layer->q_norm);
    backend->vector_destroy(layer->k_norm);
    backend->vector_destroy(layer->sinks);
    backend->linear_destroy(layer->qkv);
    backend->linear_destroy(layer->attention_gate);
    backend->linear_destroy(layer->attention_out);
    mr_latent_weights_destroy(&layer->latent, backend);
    mr_mixer_weights_destroy(&layer->mixer, backend);
    backend->linear_destroy(layer->gate_up);
    backend->linear_destroy(layer->down);
}

static void destroy_objects(const struct mr_backend *backend, struct mr_weights *weights)
{
    for (uint32_t i = 0; i < weights->layer_count; i++)
        destroy_layer(backend, &weights->layers[i]);
    destroy_norm(backend, &weights->final_norm);
    destroy_norm(backend, &weights->embedding_norm);
    backend->vector_destroy(weights->positions);
    if (weights->head != weights->embedding) backend->linear_destroy(weights->head);
    backend->linear_destroy(weights->embedding);
}

void mr_weights_destroy(struct mr_weights *weights)
{
    if (weights->layers && weights->backend) destroy_objects(weights->backend, weights);
    for (uint32_t i = 0; weights->layers && i < weights->layer_count; i++)
        mr_expert_weights_destroy(&weights->layers[i].experts, weights->expert_count,
                                  weights->backend);
    free(weights->layers);
    *weights = (struct mr_weights){0};
}
