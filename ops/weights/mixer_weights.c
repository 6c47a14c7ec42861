#include "ops/weights/mixer_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has(const struct mr_weight_loader *loader, enum mr_weight_part part, uint32_t layer)
{
    return mr_weight_loader_has(loader, (struct mr_weight_place){part, layer, 0});
}

/* ---- linear layers ---- */

/* Adds rows of a tensor of `all` rows in groups: `take` rows from `offset` on of every `size`. */
static void add_grouped(struct mr_linear_plan *plan, enum mr_weight_part part, uint32_t all,
                        uint32_t size, uint32_t offset, uint32_t take)
{
    plan->shares[plan->share_count++] =
        (struct mr_share_plan){.part = part,
                               .rows = all / size * take,
                               .first = offset,
                               .all = all,
                               .groups = {.size = size, .take = take}};
}

/* Adds the row's parts of SSD, each with its scale. */
static void add_scaled(struct mr_linear_plan *plan, const struct mr_model_config *config)
{
    const struct mr_mixer_shape *shape = &config->mixer;
    const uint32_t values = mr_mixer_out_width(shape), keys = shape->key_heads * shape->key_dim;
    const uint32_t rows[] = {values, values, keys, keys};
    uint32_t first = 0;
    for (uint32_t i = 0; i < 4; i++) {
        plan->shares[plan->share_count++] =
            (struct mr_share_plan){.part = MR_WEIGHT_MIXER_IN,
                                   .rows = rows[i],
                                   .first = first,
                                   .all = mr_mixer_row_width(shape) + shape->heads,
                                   .scale = config->scales.mixer_in * config->scales.mixer_rows[i],
                                   .bias_scale = config->scales.mixer_rows[i]};
        first += rows[i];
    }
}

static void add_rows(struct mr_linear_plan *plan, enum mr_weight_part part, uint32_t rows)
{
    plan->shares[plan->share_count++] = (struct mr_share_plan){.part = part, .rows = rows};
}

static enum mr_status load_in(struct mr_weight_loader *loader, uint32_t layer,
                              struct mr_linear **out)
{
    const struct mr_mixer_shape *shape = &loader->spec->config->mixer;
    const uint32_t width = mr_mixer_row_width(shape), values = mr_mixer_out_width(shape);
    struct mr_linear_plan plan = {.layer = layer, .width = loader->spec->config->hidden_size};
    if (shape->kind == MR_MIXER_CONV) {
        add_rows(&plan, MR_WEIGHT_MIXER_IN, width);
    } else if (mr_weight_loader_scales(loader)) {
        add_scaled(&plan, loader->spec->config);
    } else if (shape->kind == MR_MIXER_SSD) {
        add_rows(&plan, MR_WEIGHT_MIXER_IN, width);
        plan.shares[0].all = width + shape->heads;
    } else if (has(loader, MR_WEIGHT_MIXER_Q, layer)) {
        const uint32_t keys = shape->key_heads * shape->key_dim;
        add_rows(&plan, MR_WEIGHT_MIXER_Z, values);
        add_rows(&plan, MR_WEIGHT_MIXER_Q, keys);
        add_rows(&plan, MR_WEIGHT_MIXER_K, keys);
        add_rows(&plan, MR_WEIGHT_MIXER_V, values);
    } else if (has(loader, MR_WEIGHT_MIXER_Z, layer)) {
        add_rows(&plan, MR_WEIGHT_MIXER_Z, values);
        add_rows(&plan, MR_WEIGHT_MIXER_IN, width - values);
    } else {
        const uint32_t key = shape->key_dim, value = values / shape->key_heads;
        const uint32_t size = 2 * key + 2 * value;
        add_grouped(&plan, MR_WEIGHT_MIXER_IN, width, size, 2 * key + value, value);
        add_grouped(&plan, MR_WEIGHT_MIXER_IN, width, size, 0, key);
        add_grouped(&plan, MR_WEIGHT_MIXER_IN, width, size, key, key);
        add_grouped(&plan, MR_WEIGHT_MIXER_IN, width, size, 2 * key, value);
    }
    return mr_weight_loader_linear(loader, &plan, out);
}

/* The gates decide how fast a state decays; they are not computed in small integers. */
static enum mr_status load_gates(struct mr_weight_loader *loader, uint32_t layer,
                                 struct mr_linear **out)
{
    const struct mr_mixer_shape *shape = &loader->spec->config->mixer;
    const uint32_t heads = shape->heads, each = heads / shape->key_heads;
    struct mr_linear_plan plan = {
        .layer = layer, .width = loader->spec->config->hidden_size, .floats = true};
    if (shape->kind == MR_MIXER_SSD) {
        add_rows(&plan, MR_WEIGHT_MIXER_IN, heads);
        plan.shares[0].first = mr_mixer_row_width(shape);
        plan.shares[0].all = mr_mixer_row_width(shape) + heads;
        if (mr_weight_loader_scales(loader)) {
            const struct mr_part_scales *scales = &loader->spec->config->scales;
            plan.shares[0].scale = scales->mixer_in * scales->mixer_rows[4];
            plan.shares[0].bias_scale = scales->mixer_rows[4];
        }
    } else if (has(loader, MR_WEIGHT_MIXER_BETA, layer)) {
        add_rows(&plan, MR_WEIGHT_MIXER_BETA, heads);
        add_rows(&plan, MR_WEIGHT_MIXER_DECAY, heads);
    } else {
        add_grouped(&plan, MR_WEIGHT_MIXER_GATES, 2 * heads, 2 * each, 0, each);
        add_grouped(&plan, MR_WEIGHT_MIXER_GATES, 2 * heads, 2 * each, each, each);
    }
    return mr_weight_loader_linear(loader, &plan, out);
}

static enum mr_status load_out(struct mr_weight_loader *loader, uint32_t layer,
                               struct mr_linear **out)
{
    const struct mr_model_config *c = loader->spec->config;
    struct mr_linear_plan plan = {
        .layer = layer,
        .width = mr_mixer_out_width(&c->mixer),
        .scale =
            c->residual_scale * (mr_weight_loader_scales(loader) ? c->scales.mixer_out : 1.0f)};
    add_rows(&plan, MR_WEIGHT_MIXER_OUT, c->hidden_size);
    return mr_weight_loader_linear(loader, &plan, out);
}

/* ---- vectors ---- */

/* Reads the convolution of `count` channels from channel `first` on into `turned`, which has the
 * weights of a tap together. Files store the weights of a channel together, the newest token last.
 */
static enum mr_status read_taps(struct mr_weight_loader *loader, struct mr_weight_place place,
                                uint32_t first, uint32_t count, float *turned)
{
    const struct mr_mixer_shape *shape = &loader->spec->config->mixer;
    const uint32_t channels = mr_mixer_channels(shape), taps = shape->taps;
    float *stored = NULL;
    const enum mr_status status = mr_weight_loader_read(loader, place, count * taps, 0.0f, &stored);
    for (uint32_t i = 0; stored && i < count * taps; i++)
        turned[i % taps * channels + first + i / taps] = stored[i];
    free(stored);
    return status;
}

static enum mr_status load_taps(struct mr_weight_loader *loader, uint32_t layer,
                                struct mr_mixer_weights *to)
{
    static const enum mr_weight_part parts[] = {MR_WEIGHT_MIXER_TAPS_Q, MR_WEIGHT_MIXER_TAPS_K,
                                                MR_WEIGHT_MIXER_TAPS_V};
    const struct mr_mixer_shape *shape = &loader->spec->config->mixer;
    const struct mr_weight_place place = {MR_WEIGHT_MIXER_TAPS, layer, 0};
    const uint32_t channels = mr_mixer_channels(shape), count = channels * shape->taps;
    const uint32_t keys = shape->key_heads * shape->key_dim;
    const uint32_t sizes[] = {keys, keys, channels - 2 * keys};
    float *turned = calloc(count, sizeof(*turned));
    enum mr_status status = MR_OK;
    if (!turned) return mr_fail(loader->err, MR_NOMEM, "no memory for a convolution");
    const bool apart = has(loader, parts[0], layer);
    if (!apart) status = read_taps(loader, place, 0, channels, turned);
    for (uint32_t i = 0, first = 0; apart && status == MR_OK && i < 3; first += sizes[i++])
        status = read_taps(loader, (struct mr_weight_place){parts[i], layer, 0}, first, sizes[i],
                           turned);
    if (loader->checks_only) {
        free(turned);
        turned = NULL;
    }
    status = mr_weight_loader_upload(loader, status, turned, count, &to->taps);
    return status == MR_OK && mr_weight_loader_has_bias(loader, place)
               ? mr_weight_loader_bias(loader, place, channels, &to->bias)
               : status;
}

static enum mr_status load_decay(struct mr_weight_loader *loader, uint32_t layer,
                                 struct mr_vector **out)
{
    const uint32_t heads = loader->spec->config->mixer.heads;
    const struct mr_weight_place place = {MR_WEIGHT_MIXER_A, layer, 0};
    float *numbers = NULL;
    enum mr_status status = mr_weight_loader_read(loader, place, heads, 0.0f, &numbers);
    for (uint32_t i = 0; numbers && !loader->spec->gguf_names && i < heads; i++)
        numbers[i] = -expf(numbers[i]);
    return mr_weight_loader_upload(loader, status, numbers, heads, out);
}

/* The weights of the gate's norm, which the delta rule stores once for all heads. */
static enum mr_status load_norm(struct mr_weight_loader *loader, uint32_t layer,
                                struct mr_vector **out)
{
    const struct mr_mixer_shape *shape = &loader->spec->config->mixer;
    const struct mr_weight_place place = {MR_WEIGHT_MIXER_NORM, layer, 0};
    const uint32_t count = mr_mixer_out_width(shape);
    const uint32_t each = shape->kind == MR_MIXER_DELTA ? shape->value_dim : count;
    float *stored = NULL, *all = NULL;
    enum mr_status status = mr_weight_loader_read(loader, place, each, 0.0f, &stored);
    if (stored) {
        all = malloc(count * sizeof(*all));
        if (!all) status = mr_fail(loader->err, MR_NOMEM, "no memory for a norm");
        for (uint32_t i = 0; all && i < count; i++)
            all[i] = stored[i % each];
    }
    free(stored);
    return mr_weight_loader_upload(loader, status, all, count, out);
}

static enum mr_status load_heads(struct mr_weight_loader *loader, uint32_t layer,
                                 struct mr_mixer_weights *to)
{
    const struct mr_mixer_shape *shape = &loader->spec->config->mixer;
    const struct mr_weight_place bias = {MR_WEIGHT_MIXER_DT_BIAS, layer, 0};
    const struct mr_weight_place skip = {MR_WEIGHT_MIXER_SKIP, layer, 0};
    enum mr_status status = load_gates(loader, layer, &to->gates);
    if (status == MR_OK) status = load_decay(loader, layer, &to->decay);
    if (status == MR_OK)
        status = mr_weight_loader_vector(loader, bias, shape->heads, 0.0f, &to->dt_bias);
    if (status == MR_OK && shape->kind == MR_MIXER_SSD)
        status = mr_weight_loader_vector(loader, skip, shape->heads, 0.0f, &to->skip);
    return status == MR_OK && shape->norm_width > 0 ? load_norm(loader, layer, &to->norm) : status;
}

enum mr_status mr_mixer_weights_load(struct mr_weight_loader *loader, uint32_t layer,
                                     struct mr_mixer_weights *to)
{
    enum mr_status status = load_in(loader, layer, &to->in);
    if (status == MR_OK) status = load_taps(loader, layer, to);
    if (status == MR_OK && loader->spec->config->mixer.kind != MR_MIXER_CONV)
        status = load_heads(loader, layer, to);
    return status == MR_OK ? load_out(loader, layer, &to->out) : status;
}

void mr_mixer_weights_destroy(struct mr_mixer_weights *mixer, const struct mr_backend *backend)
{
    struct mr_vector *const vectors[] = {mixer->taps,    mixer->bias, mixer->decay,
                                         mixer->dt_bias, mixer->skip, mixer->norm};
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
        backend->vector_destroy(vectors[i]);
    backend->linear_destroy(mixer->in);
    backend->linear_destroy(mixer->gates);
    backend->linear_destroy(mixer->out);
}
