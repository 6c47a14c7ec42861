#include "ops/files/gguf_mixer.h"

#include <math.h>
#include <stdio.h>

#define KEY_BYTES 128

/* Returns the largest element of an array of sizes, one for each layer; layers without the part
 * have 0. A single number is its own largest element. 0: the key is absent. */
static uint32_t largest(const struct mr_gguf *gguf, struct mr_text architecture, const char *name)
{
    char key[KEY_BYTES];
    snprintf(key, sizeof(key), "%.*s.%s", mr_model_config_shown(architecture), architecture.bytes,
             name);
    uint32_t size = 0;
    if (mr_gguf_u32(gguf, key, &size)) return size;
    const struct mr_gguf_value *value = mr_gguf_find(gguf, key);
    const bool sizes = value && value->is_array && value->type != MR_GGUF_TEXT &&
                       value->type != MR_GGUF_ARRAY && value->type != MR_GGUF_BOOL;
    for (uint64_t i = 0; sizes && i < value->count; i++) {
        const double element = mr_gguf_element_number(value, i);
        if (element > (double)size && element < 4294967296.0) size = (uint32_t)element;
    }
    return size;
}

static bool has(const struct mr_tensor_table *tensors, uint32_t layer, const char *part)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, part);
    return mr_tensor_table_find(tensors, name) != NULL;
}

static void read_layers(struct mr_model_config *config, const struct mr_tensor_table *tensors)
{
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        config->mixes[i] = has(tensors, i, "ssm_conv1d") || has(tensors, i, "shortconv.conv");
        config->skips_attention[i] = !has(tensors, i, "attn_k");
        config->skips_ffn[i] = !has(tensors, i, "ffn_down") && !has(tensors, i, "ffn_down_exps");
    }
}

static void read_shape(struct mr_model_config *config, const struct mr_gguf *gguf,
                       struct mr_text architecture, const struct mr_tensor_table *tensors)
{
    const struct mr_mixer_family *family = config->family->mixer;
    struct mr_mixer_shape *shape = &config->mixer;
    *shape = (struct mr_mixer_shape){.kind = family->kind,
                                     .norm_epsilon = config->norm_epsilon,
                                     .norm_after_gate = family->norm_after_gate,
                                     .tiled = family->gguf_tiled,
                                     .dt_max = INFINITY};
    if (family->kind == MR_MIXER_CONV) {
        shape->taps = largest(gguf, architecture, "shortconv.l_cache");
        shape->value_dim = config->hidden_size;
        return;
    }
    const uint32_t inner = largest(gguf, architecture, "ssm.inner_size");
    shape->taps = largest(gguf, architecture, "ssm.conv_kernel");
    shape->heads = largest(gguf, architecture, "ssm.time_step_rank");
    shape->key_heads = largest(gguf, architecture, "ssm.group_count");
    shape->key_dim = largest(gguf, architecture, "ssm.state_size");
    shape->value_dim = shape->heads > 0 ? inner / shape->heads : 0;
    shape->norm_width = shape->value_dim;
    if (family->kind == MR_MIXER_DELTA) return;
    shape->norm_width = inner;
    if (family->grouped_norm && shape->key_heads > 0) shape->norm_width /= shape->key_heads;
    if (!family->norm_keys) return;
    /* Such files have the norm only where it follows the gate. */
    shape->norm_after_gate = true;
    if (!has(tensors, 0, "ssm_norm")) shape->norm_width = 0;
}

void mr_gguf_mixer_read(struct mr_model_config *config, const struct mr_gguf *gguf,
                        struct mr_text architecture, const struct mr_tensor_table *tensors)
{
    read_layers(config, tensors);
    read_shape(config, gguf, architecture, tensors);
    config->kv_head_count = largest(gguf, architecture, "attention.head_count_kv");
    if (config->head_count > 0) return;
    /* A model without attention states no heads. */
    config->head_count = config->kv_head_count = config->family->defaults.head_count;
    config->head_dim = config->family->defaults.head_dim;
}
