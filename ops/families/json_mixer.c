#include "ops/families/json_mixer.h"

#include "ops/families/json_keys.h"

#include <math.h>
#include <string.h>

/* Returns the size under `key`, or the fallback when the key is absent, is NULL, or has a text
 * ("auto"). 0 for other values that are no size. */
static uint32_t size_of(const struct mr_json_value *root, const char *key, uint32_t fallback)
{
    const struct mr_json_value *value = key ? mr_json_get(root, key) : NULL;
    struct mr_text text;
    int64_t size;
    if (!mr_json_given(value) || mr_json_text(value, &text)) return fallback;
    return mr_json_int(value, &size) && size > 0 && size <= UINT32_MAX ? (uint32_t)size : 0;
}

/* ---- the shape ---- */

static void read_limits(struct mr_mixer_shape *shape, const struct mr_json_value *root)
{
    const struct mr_json_value *limits = mr_json_get(root, "time_step_limit");
    double low = 0.0, high = INFINITY;
    shape->dt_max = INFINITY;
    if (mr_json_number(mr_json_at(limits, 0), &low)) shape->dt_min = (float)low;
    if (mr_json_number(mr_json_at(limits, 1), &high)) shape->dt_max = (float)high;
}

static void read_shape(struct mr_model_config *config, const struct mr_json_value *root)
{
    const struct mr_mixer_family *family = config->family->mixer;
    struct mr_mixer_shape *shape = &config->mixer;
    *shape = (struct mr_mixer_shape){.kind = family->kind,
                                     .taps = size_of(root, family->taps, 4),
                                     .norm_epsilon = config->norm_epsilon,
                                     .norm_after_gate = family->norm_after_gate};
    if (family->kind == MR_MIXER_CONV) {
        shape->value_dim = config->hidden_size;
        return;
    }
    shape->heads = size_of(root, family->heads, 0);
    shape->key_heads = size_of(root, family->key_heads, 1);
    shape->key_dim = size_of(root, family->key_dim, 0);
    const uint32_t expanded =
        (uint32_t)(mr_json_number_or(root, "mamba_expand", 2.0) * config->hidden_size);
    const uint32_t inner = size_of(root, "mamba_d_ssm", expanded);
    shape->value_dim =
        size_of(root, family->value_dim, shape->heads > 0 ? inner / shape->heads : 0);
    shape->norm_width = shape->value_dim;
    if (family->norm_epsilon > 0.0) shape->norm_epsilon = (float)family->norm_epsilon;
    shape->doubled_beta =
        family->doubled_beta && mr_json_bool_or(root, "linear_allow_neg_eigval", true);
    if (family->kind != MR_MIXER_SSD) return;
    read_limits(shape, root);
    shape->norm_width = mr_mixer_out_width(shape);
    if (family->grouped_norm && shape->key_heads > 0) shape->norm_width /= shape->key_heads;
    if (!family->norm_keys) return;
    shape->norm_after_gate = !mr_json_bool_or(root, "mamba_norm_before_gate", true);
    if (!mr_json_bool_or(root, "mamba_rms_norm", false)) shape->norm_width = 0;
}

/* ---- which layers ---- */

/* Sets what layer i has. False: the type is unknown. */
static bool set_type(struct mr_model_config *config, uint32_t i, struct mr_text type)
{
    const bool alone = config->family->mixer->alone;
    const bool attends = mr_text_is(type, "full_attention") || mr_text_is(type, "attention");
    const bool mixes = mr_text_is(type, "linear_attention") || mr_text_is(type, "mamba") ||
                       mr_text_is(type, "conv");
    const bool routed = mr_text_is(type, "moe"), dense = mr_text_is(type, "mlp");
    config->mixes[i] = mixes;
    config->skips_attention[i] = !attends;
    config->skips_ffn[i] = alone && !routed && !dense;
    if (alone) config->routed[i] = routed;
    return attends || mixes || (alone && (routed || dense));
}

static enum mr_status read_types(struct mr_model_config *config, const struct mr_json_value *types,
                                 struct mr_error *err)
{
    if (mr_json_count(types) != config->layer_count)
        return mr_fail(err, MR_BAD_FILE, "layer_types does not list each of the %u layers",
                       config->layer_count);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        struct mr_text type = {"", 0};
        mr_json_text(mr_json_at(types, i), &type);
        if (!set_type(config, i, type))
            return mr_fail(err, MR_BAD_FILE, "layer type \"%.*s\" is not supported",
                           mr_model_config_shown(type), type.bytes);
    }
    return MR_OK;
}

/* A letter for each layer, as in Nemotron-H. */
static enum mr_status read_letters(struct mr_model_config *config, struct mr_text letters,
                                   struct mr_error *err)
{
    static const struct {
        char letter;
        const char *type;
    } types[] = {{'M', "mamba"}, {'*', "attention"}, {'E', "moe"}, {'-', "mlp"}};
    if (letters.length != config->layer_count)
        return mr_fail(err, MR_BAD_FILE,
                       "hybrid_override_pattern does not have a letter for each of the %u layers",
                       config->layer_count);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        struct mr_text type = {"", 0};
        for (size_t j = 0; j < sizeof(types) / sizeof(types[0]); j++)
            if (letters.bytes[i] == types[j].letter)
                type = (struct mr_text){types[j].type, strlen(types[j].type)};
        if (!set_type(config, i, type))
            return mr_fail(err, MR_BAD_FILE, "layer type \"%c\" is not supported",
                           letters.bytes[i]);
    }
    return MR_OK;
}

/* Without a list of types: a list of the layers with attention, every interval-th layer, or none.
 */
static void read_pattern(struct mr_model_config *config, const struct mr_json_value *root)
{
    const struct mr_mixer_family *family = config->family->mixer;
    const uint32_t interval = size_of(root, "full_attention_interval", family->attention_interval);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++)
        config->mixes[i] = config->skips_attention[i] = interval == 0 || (i + 1) % interval != 0;
    for (uint32_t i = 0; i < MR_LAYERS_MAX; i++) {
        config->skips_ffn[i] = family->alone;
        if (family->with_attention) config->skips_attention[i] = false;
    }
    const struct mr_json_value *list =
        family->attention_list ? mr_json_get(root, family->attention_list) : NULL;
    for (size_t i = 0; i < mr_json_count(list); i++) {
        int64_t layer;
        if (mr_json_int(mr_json_at(list, i), &layer) && layer >= 0 && layer < MR_LAYERS_MAX)
            config->mixes[layer] = config->skips_attention[layer] = false;
    }
}

enum mr_status mr_json_mixer_read(struct mr_model_config *config, const struct mr_json_value *root,
                                  struct mr_error *err)
{
    read_shape(config, root);
    const struct mr_json_value *types = mr_json_get(root, "layer_types");
    if (!mr_json_given(types)) types = mr_json_get(root, "layers_block_type");
    if (mr_json_given(types)) return read_types(config, types, err);
    struct mr_text letters;
    if (mr_json_text(mr_json_get(root, "hybrid_override_pattern"), &letters))
        return read_letters(config, letters, err);
    read_pattern(config, root);
    return MR_OK;
}
