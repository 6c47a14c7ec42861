#include "ops/files/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct mr_model_family families[] = {
    {.name = "llama", .gguf_rotary_pairs = true},
    {.name = "mistral", .default_window = 4096}, /* GGUF files call this family "llama" */
    {.name = "qwen2", .window_needs_optin = true},
    {.name = "qwen3", .head_norm = true, .window_needs_optin = true},
};

static enum mr_status find_family(struct mr_model_config *config, struct mr_text name,
                                  struct mr_error *err)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (mr_text_is(name, families[i].name)) {
            config->family = &families[i];
            return MR_OK;
        }
    return mr_fail(err, MR_BAD_FILE,
                   "model architecture \"%.*s\" is not supported; llama, mistral, qwen2 and qwen3 "
                   "are",
                   mr_stored_name_shown(name), name.bytes);
}

void mr_model_config_add_eos(struct mr_model_config *config, uint32_t id)
{
    for (uint32_t i = 0; i < config->eos_count; i++)
        if (config->eos_ids[i] == id) return;
    if (config->eos_count < MR_EOS_IDS_MAX) config->eos_ids[config->eos_count++] = id;
}

/* ---- limits of every model ---- */

struct bound {
    const char *name;
    uint32_t value, min, max;
};

static enum mr_status check_bounds(const struct mr_model_config *c, struct mr_error *err)
{
    const struct bound bounds[] = {
        {"number of layers", c->layer_count, 1, MR_LAYERS_MAX},
        {"hidden size", c->hidden_size, 2, 65536},
        {"number of heads", c->head_count, 1, 1024},
        {"number of key/value heads", c->kv_head_count, 1, c->head_count},
        {"head size", c->head_dim, 2, 256},
        {"feed-forward size", c->ffn_size, 2, 1u << 20},
        {"vocabulary size", c->vocab_size, 1, 1u << 22},
        {"context length", c->context_tokens, 1, 1u << 24},
        {"rotary size", c->rope.rotary_dim, 2, c->head_dim},
    };
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].min || bounds[i].value > bounds[i].max)
            return mr_fail(err, MR_BAD_FILE, "the model's %s is %u; %u to %u is supported",
                           bounds[i].name, bounds[i].value, bounds[i].min, bounds[i].max);
    return MR_OK;
}

static bool positive(double value)
{
    return isfinite(value) && value > 0.0;
}

static enum mr_status check_rope(const struct mr_rope_config *rope, struct mr_error *err)
{
    if (rope->rotary_dim % 2 != 0 || !positive(rope->theta))
        return mr_fail(err, MR_BAD_FILE, "rotary size %u with base %g is not valid",
                       rope->rotary_dim, rope->theta);
    if (rope->kind != MR_ROPE_PLAIN && !positive(rope->factor))
        return mr_fail(err, MR_BAD_FILE, "rope scaling has no valid factor");
    if (rope->kind == MR_ROPE_LLAMA3 &&
        (!positive(rope->original_context) || !positive(rope->low_freq) ||
         !(rope->high_freq > rope->low_freq)))
        return mr_fail(err, MR_BAD_FILE,
                       "llama3 rope scaling lacks valid frequencies or an original context");
    return MR_OK;
}

static enum mr_status check(const struct mr_model_config *config, struct mr_error *err)
{
    enum mr_status status = check_bounds(config, err);
    if (status == MR_OK) status = check_rope(&config->rope, err);
    if (status != MR_OK) return status;
    if (config->head_count % config->kv_head_count != 0)
        return mr_fail(err, MR_BAD_FILE,
                       "%u heads cannot be divided evenly among %u key/value heads",
                       config->head_count, config->kv_head_count);
    if (config->head_count / config->kv_head_count > MR_GROUP_MAX)
        return mr_fail(err, MR_BAD_FILE,
                       "%u heads share %u key/value heads; at most %u each are supported",
                       config->head_count, config->kv_head_count, MR_GROUP_MAX);
    if (!positive((double)config->norm_epsilon))
        return mr_fail(err, MR_BAD_FILE, "the norm's epsilon is missing or not positive");
    for (uint32_t i = 0; i < config->eos_count; i++)
        if (config->eos_ids[i] >= config->vocab_size)
            return mr_fail(err, MR_BAD_FILE, "end token %u is outside the vocabulary of %u",
                           config->eos_ids[i], config->vocab_size);
    return MR_OK;
}

/* Sets which layers use the sliding window: the layers from `first` on, except every pattern-th
 * layer of the model; pattern 0: no exception. */
static void set_windows(struct mr_model_config *config, uint32_t first, uint32_t pattern)
{
    for (uint32_t i = 0; i < MR_LAYERS_MAX; i++)
        config->windowed[i] =
            config->window > 0 && i >= first && (pattern == 0 || (i + 1) % pattern != 0);
}

/* ---- GGUF ---- */

/* Reads GGUF keys of the model's own architecture, which are "<architecture>.<name>". */
struct gguf_reader {
    const struct mr_gguf *gguf;
    struct mr_text architecture;
    const char *missing; /* the first required key that is absent or not a number */
};

static const char *full_key(const struct gguf_reader *reader, const char *name, char buffer[96])
{
    snprintf(buffer, 96, "%.*s.%s", (int)reader->architecture.length, reader->architecture.bytes,
             name);
    return buffer;
}

static bool has_key(const struct gguf_reader *reader, const char *name)
{
    char key[96];
    return mr_gguf_find(reader->gguf, full_key(reader, name, key)) != NULL;
}

static uint32_t need_u32(struct gguf_reader *reader, const char *name)
{
    char key[96];
    uint32_t value = 0;
    if (!mr_gguf_u32(reader->gguf, full_key(reader, name, key), &value) && !reader->missing)
        reader->missing = name;
    return value;
}

static uint32_t u32_or(struct gguf_reader *reader, const char *name, uint32_t fallback)
{
    return has_key(reader, name) ? need_u32(reader, name) : fallback;
}

static double number_or(const struct gguf_reader *reader, const char *name, double fallback)
{
    char key[96];
    double value = fallback;
    mr_gguf_number(reader->gguf, full_key(reader, name, key), &value);
    return value;
}

static enum mr_status gguf_rope(struct mr_model_config *config, struct gguf_reader *reader,
                                struct mr_error *err)
{
    struct mr_rope_config *rope = &config->rope;
    rope->rotary_dim = u32_or(reader, "rope.dimension_count", config->head_dim);
    rope->theta = number_or(reader, "rope.freq_base", 10000.0);
    char key[96];
    struct mr_text type = {"none", 4};
    mr_gguf_text(reader->gguf, full_key(reader, "rope.scaling.type", key), &type);
    if (mr_text_is(type, "linear")) {
        rope->kind = MR_ROPE_LINEAR;
        rope->factor = number_or(reader, "rope.scaling.factor", 0.0);
    } else if (!mr_text_is(type, "none")) {
        return mr_fail(err, MR_BAD_FILE, "rope scaling \"%.*s\" is not supported",
                       mr_stored_name_shown(type), type.bytes);
    }
    return MR_OK;
}

static void gguf_sizes(struct mr_model_config *config, struct gguf_reader *reader)
{
    config->layer_count = need_u32(reader, "block_count");
    config->hidden_size = need_u32(reader, "embedding_length");
    config->head_count = need_u32(reader, "attention.head_count");
    config->kv_head_count = u32_or(reader, "attention.head_count_kv", config->head_count);
    config->ffn_size = need_u32(reader, "feed_forward_length");
    config->context_tokens = need_u32(reader, "context_length");
    config->norm_epsilon = (float)number_or(reader, "attention.layer_norm_rms_epsilon", 0.0);
    uint32_t even = config->head_count > 0 ? config->hidden_size / config->head_count : 0;
    config->head_dim = u32_or(reader, "attention.key_length", even);
    config->window = u32_or(reader, "attention.sliding_window", 0);
    set_windows(config, 0, u32_or(reader, "attention.sliding_window_pattern", 0));
}

static enum mr_status gguf_reject(struct gguf_reader *reader, const struct mr_model_config *config,
                                  struct mr_error *err)
{
    if (reader->missing)
        return mr_fail(err, MR_BAD_FILE, "GGUF key \"%.*s.%s\" is missing or not a number",
                       (int)reader->architecture.length, reader->architecture.bytes,
                       reader->missing);
    if (u32_or(reader, "expert_count", 0) > 0)
        return mr_fail(err, MR_BAD_FILE, "mixture-of-experts models are not supported");
    if (u32_or(reader, "attention.value_length", config->head_dim) != config->head_dim)
        return mr_fail(err, MR_BAD_FILE, "keys and values of different sizes are not supported");
    if (config->family->gguf_rotary_pairs && config->rope.rotary_dim != config->head_dim)
        return mr_fail(err, MR_BAD_FILE, "rotary size %u of a head of %u is not supported",
                       config->rope.rotary_dim, config->head_dim);
    return MR_OK;
}

static void gguf_end_tokens(struct mr_model_config *config, const struct mr_gguf *gguf)
{
    const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"};
    uint32_t id;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (mr_gguf_u32(gguf, keys[i], &id)) mr_model_config_add_eos(config, id);
}

enum mr_status mr_model_config_from_gguf(struct mr_model_config *out, const struct mr_gguf *gguf,
                                         const struct mr_tensor_table *tensors,
                                         struct mr_error *err)
{
    *out = (struct mr_model_config){0};
    struct gguf_reader reader = {.gguf = gguf};
    if (!mr_gguf_text(gguf, "general.architecture", &reader.architecture))
        return mr_fail(err, MR_BAD_FILE, "GGUF key \"general.architecture\" is missing");
    enum mr_status status = find_family(out, reader.architecture, err);
    if (status != MR_OK) return status;
    gguf_sizes(out, &reader);
    const struct mr_stored_tensor *embedding = mr_tensor_table_find(tensors, "token_embd.weight");
    if (!embedding || embedding->dim_count != 2 || embedding->dims[0] > UINT32_MAX)
        return mr_fail(err, MR_BAD_FILE, "tensor \"token_embd.weight\" is missing");
    out->vocab_size = (uint32_t)embedding->dims[0];
    out->tied_head = mr_tensor_table_find(tensors, "output.weight") == NULL;
    gguf_end_tokens(out, gguf);
    status = gguf_rope(out, &reader, err);
    if (status == MR_OK) status = gguf_reject(&reader, out, err);
    return status == MR_OK ? check(out, err) : status;
}

/* ---- config.json ---- */

static bool is_given(const struct mr_json_value *value)
{
    return value && mr_json_kind(value) != MR_JSON_NULL;
}

struct json_reader {
    const struct mr_json_value *root;
    const char *wrong; /* the first required key that is absent or not a valid number */
};

static uint32_t json_u32(struct json_reader *reader, const char *key)
{
    int64_t value;
    if (mr_json_int(mr_json_get(reader->root, key), &value) && value >= 0 && value <= UINT32_MAX)
        return (uint32_t)value;
    if (!reader->wrong) reader->wrong = key;
    return 0;
}

static uint32_t json_u32_or(struct json_reader *reader, const char *key, uint32_t fallback)
{
    return is_given(mr_json_get(reader->root, key)) ? json_u32(reader, key) : fallback;
}

static bool json_bool_or(const struct mr_json_value *root, const char *key, bool fallback)
{
    bool value = fallback;
    mr_json_bool(mr_json_get(root, key), &value);
    return value;
}

static double json_number_or(const struct mr_json_value *object, const char *key, double fallback)
{
    double value = fallback;
    mr_json_number(mr_json_get(object, key), &value);
    return value;
}

static enum mr_status json_rope_kind(struct mr_rope_config *rope,
                                     const struct mr_json_value *scaling, struct mr_error *err)
{
    struct mr_text type = {"default", 7};
    if (!mr_json_text(mr_json_get(scaling, "rope_type"), &type))
        mr_json_text(mr_json_get(scaling, "type"), &type);
    rope->factor = json_number_or(scaling, "factor", 0.0);
    if (mr_text_is(type, "default")) return MR_OK;
    if (mr_text_is(type, "linear")) {
        rope->kind = MR_ROPE_LINEAR;
        return MR_OK;
    }
    if (mr_text_is(type, "llama3")) {
        rope->kind = MR_ROPE_LLAMA3;
        rope->low_freq = json_number_or(scaling, "low_freq_factor", 0.0);
        rope->high_freq = json_number_or(scaling, "high_freq_factor", 0.0);
        rope->original_context = json_number_or(scaling, "original_max_position_embeddings", 0.0);
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_FILE, "rope scaling \"%.*s\" is not supported",
                   mr_stored_name_shown(type), type.bytes);
}

/* Older config.json files have the keys rope_theta and rope_scaling, newer ones have both inside
 * rope_parameters. */
static enum mr_status json_rope(struct mr_model_config *config, const struct json_reader *reader,
                                struct mr_error *err)
{
    const struct mr_json_value *parameters = mr_json_get(reader->root, "rope_parameters");
    if (!is_given(parameters)) parameters = mr_json_get(reader->root, "rope_scaling");
    struct mr_rope_config *rope = &config->rope;
    rope->theta = json_number_or(reader->root, "rope_theta", 10000.0);
    rope->theta = json_number_or(parameters, "rope_theta", rope->theta);
    double partial = json_number_or(reader->root, "partial_rotary_factor", 1.0);
    partial = json_number_or(parameters, "partial_rotary_factor", partial);
    if (!(partial > 0.0 && partial <= 1.0))
        return mr_fail(err, MR_BAD_FILE, "partial_rotary_factor is %g", partial);
    rope->rotary_dim = (uint32_t)(partial * config->head_dim);
    return json_rope_kind(rope, parameters, err);
}

static enum mr_status json_layer_types(struct mr_model_config *config,
                                       const struct mr_json_value *types, struct mr_error *err)
{
    if (mr_json_count(types) != config->layer_count)
        return mr_fail(err, MR_BAD_FILE, "layer_types does not list each of the %u layers",
                       config->layer_count);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        struct mr_text type = {"", 0};
        mr_json_text(mr_json_at(types, i), &type);
        config->windowed[i] = mr_text_is(type, "sliding_attention");
        if (!config->windowed[i] && !mr_text_is(type, "full_attention"))
            return mr_fail(err, MR_BAD_FILE, "layer type \"%.*s\" is not supported",
                           mr_stored_name_shown(type), type.bytes);
    }
    return MR_OK;
}

static enum mr_status json_window(struct mr_model_config *config, struct json_reader *reader,
                                  struct mr_error *err)
{
    bool named = mr_json_get(reader->root, "sliding_window") != NULL;
    config->window =
        json_u32_or(reader, "sliding_window", named ? 0 : config->family->default_window);
    if (config->family->window_needs_optin &&
        !json_bool_or(reader->root, "use_sliding_window", false))
        config->window = 0;
    const struct mr_json_value *types = mr_json_get(reader->root, "layer_types");
    if (is_given(types)) return json_layer_types(config, types, err);
    uint32_t from =
        config->family->window_needs_optin ? json_u32_or(reader, "max_window_layers", 28) : 0;
    set_windows(config, from, json_u32_or(reader, "sliding_window_pattern", 0));
    return MR_OK;
}

void mr_model_config_add_eos_json(struct mr_model_config *config, const struct mr_json_value *value,
                                  uint32_t limit)
{
    int64_t id;
    if (mr_json_int(value, &id) && id >= 0 && id < limit)
        mr_model_config_add_eos(config, (uint32_t)id);
    for (size_t i = 0; i < mr_json_count(value); i++)
        if (mr_json_int(mr_json_at(value, i), &id) && id >= 0 && id < limit)
            mr_model_config_add_eos(config, (uint32_t)id);
}

static void json_sizes(struct mr_model_config *config, struct json_reader *reader)
{
    config->layer_count = json_u32(reader, "num_hidden_layers");
    config->hidden_size = json_u32(reader, "hidden_size");
    config->head_count = json_u32(reader, "num_attention_heads");
    config->kv_head_count = json_u32_or(reader, "num_key_value_heads", config->head_count);
    uint32_t even = config->head_count > 0 ? config->hidden_size / config->head_count : 0;
    config->head_dim = json_u32_or(reader, "head_dim", even);
    config->ffn_size = json_u32(reader, "intermediate_size");
    config->vocab_size = json_u32(reader, "vocab_size");
    config->context_tokens = json_u32(reader, "max_position_embeddings");
    config->norm_epsilon = (float)json_number_or(reader->root, "rms_norm_eps", 1e-6);
    config->tied_head = json_bool_or(reader->root, "tie_word_embeddings", false);
}

static enum mr_status json_reject(const struct json_reader *reader, struct mr_error *err)
{
    if (reader->wrong)
        return mr_fail(err, MR_BAD_FILE, "config.json: \"%s\" is missing or not a valid number",
                       reader->wrong);
    struct mr_text activation = {"silu", 4};
    mr_json_text(mr_json_get(reader->root, "hidden_act"), &activation);
    if (!mr_text_is(activation, "silu"))
        return mr_fail(err, MR_BAD_FILE, "activation \"%.*s\" is not supported",
                       mr_stored_name_shown(activation), activation.bytes);
    if (is_given(mr_json_get(reader->root, "quantization_config")))
        return mr_fail(err, MR_BAD_FILE, "quantized safetensors are not supported");
    return MR_OK;
}

enum mr_status mr_model_config_from_json(struct mr_model_config *out,
                                         const struct mr_json_value *root, struct mr_error *err)
{
    *out = (struct mr_model_config){0};
    struct json_reader reader = {.root = root};
    struct mr_text type;
    if (!mr_json_text(mr_json_get(root, "model_type"), &type))
        return mr_fail(err, MR_BAD_FILE, "config.json: \"model_type\" is missing");
    enum mr_status status = find_family(out, type, err);
    if (status != MR_OK) return status;
    json_sizes(out, &reader);
    mr_model_config_add_eos_json(out, mr_json_get(root, "eos_token_id"), UINT32_MAX);
    status = json_window(out, &reader, err);
    if (status == MR_OK) status = json_reject(&reader, err);
    if (status == MR_OK) status = json_rope(out, &reader, err);
    return status == MR_OK ? check(out, err) : status;
}
