#include "ops/families/config_json.h"

#include "ops/families/json_keys.h"
#include "ops/families/json_latent.h"
#include "ops/families/json_mixer.h"
#include "ops/families/json_rope.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- keys ---- */

struct json_reader {
    const struct mr_json_value *root;  /* the object with the sizes */
    const struct mr_json_value *outer; /* the whole config.json; may be the same */
    const char *wrong; /* the first required key that is absent or not a valid number */
};

/* Names of sizes in the config.json of older families. */
static const struct {
    const char *usual, *other;
} aliases[] = {
    {"num_hidden_layers", "n_layers"},
    {"num_hidden_layers", "n_layer"},
    {"hidden_size", "dim"},
    {"hidden_size", "n_embd"},
    {"num_attention_heads", "n_heads"},
    {"num_attention_heads", "n_head"},
    {"num_key_value_heads", "num_kv_heads"},
    {"intermediate_size", "hidden_dim"},
    {"intermediate_size", "n_inner"},
    {"intermediate_size", "ffn_hidden_size"},
    {"max_position_embeddings", "n_positions"},
};

/* Returns the value of a key, or that of its first alias that has one. */
static const struct mr_json_value *value_of(const struct json_reader *reader, const char *key)
{
    const struct mr_json_value *value = mr_json_get(reader->root, key);
    for (size_t i = 0; !mr_json_given(value) && i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(aliases[i].usual, key) == 0) value = mr_json_get(reader->root, aliases[i].other);
    return value;
}

static bool has(const struct json_reader *reader, const char *key)
{
    return mr_json_given(value_of(reader, key));
}

static uint32_t need(struct json_reader *reader, const char *key)
{
    const struct mr_json_value *from = value_of(reader, key);
    const size_t count = mr_json_count(from);
    int64_t value, other;
    /* Some keys may list a value for each layer: they are read if all are equal. */
    bool is_valid = mr_json_int(count > 0 ? mr_json_at(from, 0) : from, &value);
    for (size_t i = 1; is_valid && i < count; i++)
        is_valid = mr_json_int(mr_json_at(from, i), &other) && other == value;
    if (is_valid && value >= 0 && value <= UINT32_MAX) return (uint32_t)value;
    if (!reader->wrong) reader->wrong = key;
    return 0;
}

static uint32_t get(struct json_reader *reader, const char *key, uint32_t fallback)
{
    return has(reader, key) ? need(reader, key) : fallback;
}

/* Returns the number under `key`, or the family's value when the key is absent. The key is required
 * when the family has no value. */
static uint32_t need_or(struct json_reader *reader, const char *key, uint32_t usual)
{
    return usual > 0 ? get(reader, key, usual) : need(reader, key);
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

/* ---- sizes and scales ---- */

/* The feed-forward size of LFM2: two thirds of the key, times a factor, rounded up. */
static uint32_t adjusted_ffn(struct json_reader *reader, uint32_t size)
{
    if (!mr_json_bool_or(reader->root, "block_auto_adjust_ff_dim", true)) return size;
    const uint32_t multiple = get(reader, "block_multiple_of", 256);
    const double factor = mr_json_number_or(reader->root, "block_ffn_dim_multiplier", 1.0);
    size = (uint32_t)(factor * (uint32_t)(2.0 * size / 3.0));
    return multiple > 0 ? (size + multiple - 1) / multiple * multiple : 0;
}

/* The tables of position and token-type embeddings of encoders. */
static void read_tables(struct mr_model_config *config, struct json_reader *reader)
{
    const struct mr_model_family *family = config->family;
    if (family->token_types) config->type_count = get(reader, "type_vocab_size", 2);
    if (!family->positions) return;
    config->position_rows = config->context_tokens;
    if (family->positions_after_padding)
        config->first_position = get(reader, "pad_token_id", 1) + 1;
    config->context_tokens = config->first_position < config->position_rows
                                 ? config->position_rows - config->first_position
                                 : 0;
}

static uint32_t ffn_size(const struct mr_model_family *family, struct json_reader *reader)
{
    if (family->shared_mlp) return need(reader, "shared_intermediate_size");
    if (family->mixer && family->mixer->alone) return get(reader, "intermediate_size", 0);
    if (family->adjusted_ffn && has(reader, "block_ff_dim"))
        return adjusted_ffn(reader, need(reader, "block_ff_dim"));
    /* a model in which every layer has experts may lack the key */
    if (!has(reader, "intermediate_size") && has(reader, "moe_intermediate_size"))
        return need(reader, "moe_intermediate_size");
    const uint32_t size = need_or(reader, "intermediate_size",
                                  family->defaults.ffn_multiple * need(reader, "hidden_size"));
    return family->adjusted_ffn ? adjusted_ffn(reader, size) : size;
}

/* Falcon's two forms of a layer. The old one has one or all key/value heads. The new one always has
 * parallel branches, with a norm each unless a key says 1. */
static void read_grouped(struct mr_model_config *config, const struct json_reader *reader)
{
    const struct mr_json_value *root = reader->root;
    const bool grouped = mr_json_bool_or(root, "new_decoder_architecture", false);
    if (!grouped)
        config->kv_head_count = mr_json_bool_or(root, "multi_query", true) ? 1 : config->head_count;
    config->parallel = grouped || mr_json_bool_or(root, "parallel_attn", true);
    config->own_ffn_norm =
        grouped && mr_json_number_or(root, "num_ln_in_parallel_attn", 2.0) == 2.0;
}

static void read_sizes(struct mr_model_config *config, struct json_reader *reader)
{
    const struct mr_family_defaults *usual = &config->family->defaults;
    const struct mr_json_value *types = mr_json_get(reader->root, "layers_block_type");
    config->layer_count = !has(reader, "num_hidden_layers") && mr_json_given(types)
                              ? (uint32_t)mr_json_count(types)
                              : need(reader, "num_hidden_layers");
    config->hidden_size = need(reader, "hidden_size");
    config->head_count = need_or(reader, "num_attention_heads", usual->head_count);
    config->kv_head_count =
        get(reader, "num_key_value_heads",
            usual->kv_head_count > 0 ? usual->kv_head_count : config->head_count);
    uint32_t even = config->head_count > 0 ? config->hidden_size / config->head_count : 0;
    config->head_dim = get(reader, "head_dim", usual->head_dim > 0 ? usual->head_dim : even);
    config->ffn_size = ffn_size(config->family, reader);
    if (config->family->routing >= MR_ROUTING_GROUPS)
        config->extra_layers = get(reader, "num_nextn_predict_layers", 0);
    config->vocab_size = need_or(reader, "vocab_size", usual->vocab_size);
    config->context_tokens = need_or(reader, "max_position_embeddings", usual->context_tokens);
    bool tied = mr_json_bool_or(reader->root, "tie_embedding", usual->tied_head);
    tied = mr_json_bool_or(reader->root, "tie_word_embeddings", tied);
    config->tied_head = mr_json_bool_or(reader->outer, "tie_word_embeddings", tied);
    read_tables(config, reader);
    if (config->family->grouped_decoder) read_grouped(config, reader);
}

/* A key that is absent has the family's value; null means no cap. */
static float read_cap(const struct mr_json_value *root, const char *key, double usual)
{
    const struct mr_json_value *value = mr_json_get(root, key);
    return (float)(value ? mr_json_number_or(root, key, 0.0) : usual);
}

static void read_scales(struct mr_model_config *config, const struct mr_json_value *root)
{
    const struct mr_model_family *family = config->family;
    const struct mr_family_defaults *usual = &family->defaults;
    double epsilon = usual->norm_epsilon > 0.0 ? usual->norm_epsilon : 1e-6;
    static const char *const keys[] = {"norm_epsilon", "norm_eps", "layer_norm_epsilon"};
    epsilon = mr_json_number_or(root, "rms_norm_eps", epsilon);
    if (family->centered_norms) epsilon = mr_json_number_or(root, "layer_norm_eps", epsilon);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        epsilon = mr_json_number_or(root, keys[i], epsilon);
    config->norm_epsilon = (float)epsilon;
    double scalar = mr_json_number_or(root, "query_pre_attn_scalar", usual->query_scalar);
    config->attention_scale = (float)(1.0 / sqrt(scalar > 0.0 ? scalar : config->head_dim));
    /* Gemma 3 files may have the key, but the reference does not apply it. */
    if (usual->attention_softcap > 0.0)
        config->attention_softcap =
            read_cap(root, "attn_logit_softcapping", usual->attention_softcap);
    config->logit_softcap = read_cap(root, "final_logit_softcapping", usual->logit_softcap);
    if (family->embedding_root ||
        (family->embedding_root_opt_in && mr_json_bool_or(root, "mup_enabled", false)))
        config->embedding_scale = sqrtf((float)config->hidden_size);
    if (family->clips) config->qkv_clip = read_cap(root, "clip_qkv", 0.0);
    if (family->may_be_parallel)
        config->parallel = mr_json_bool_or(root, "use_parallel_residual", family->parallel);
    if (family->own_ffn_norm) config->own_ffn_norm = config->parallel;
    if (family->scale_keys) {
        config->scale_falls = mr_json_bool_or(root, "scale_attn_by_inverse_layer_idx", false);
        if (!mr_json_bool_or(root, "scale_attn_weights", true)) config->attention_scale = 1.0f;
    }
    if (usual->logit_scale > 0.0)
        config->logit_scale = (float)mr_json_number_or(root, "logit_scale", usual->logit_scale);
    if (family->optional_head_norm && (mr_json_bool_or(root, "qk_layernorm", false) ||
                                       mr_json_bool_or(root, "use_qk_norm", false)))
        config->head_norm = family->head_norm;
    if (family->part_scales)
        config->logit_scale = (float)mr_json_number_or(root, "lm_head_multiplier", 1.0);
    if (family->multipliers || family->part_scales)
        config->embedding_scale = (float)mr_json_number_or(root, "embedding_multiplier", 1.0);
    if (!family->multipliers) return;
    config->attention_scale = (float)mr_json_number_or(root, "attention_multiplier", 1.0);
    config->residual_scale = (float)mr_json_number_or(root, "residual_multiplier", 1.0);
    config->logit_scale = (float)(1.0 / mr_json_number_or(root, "logits_scaling", 1.0));
}

static enum mr_status read_activation(struct mr_model_config *config,
                                      const struct mr_json_value *root, struct mr_error *err)
{
    static const struct {
        const char *name;
        enum mr_activation activation;
    } names[] = {
        {"silu", MR_ACTIVATION_SILU},           {"swish", MR_ACTIVATION_SILU},
        {"gelu", MR_ACTIVATION_GELU},           {"gelu_new", MR_ACTIVATION_GELU_TANH},
        {"gelu_fast", MR_ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", MR_ACTIVATION_GELU_TANH},
        {"relu", MR_ACTIVATION_RELU},           {"relu2", MR_ACTIVATION_RELU2},
        {"xielu", MR_ACTIVATION_XIELU},
    };
    struct mr_text name = {"", 0};
    if (!mr_json_text(mr_json_get(root, "hidden_activation"), &name))
        if (!mr_json_text(mr_json_get(root, "hidden_act"), &name))
            if (!mr_json_text(mr_json_get(root, "activation"), &name))
                mr_json_text(mr_json_get(root, "activation_function"), &name);
    enum mr_activation own = config->family->activation;
    if (name.length == 0) return MR_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!mr_text_is(name, names[i].name)) continue;
        /* the activations from RELU on have no gate */
        if (config->family->plain_ffn ||
            (config->family->encoder && names[i].activation < MR_ACTIVATION_RELU)) {
            config->activation = names[i].activation;
            return MR_OK;
        }
        if (names[i].activation >= MR_ACTIVATION_RELU) break; /* none with a gate */
        /* Gemma's "gelu" means the tanh form, and gpt-oss's "silu" its clamped SwiGLU. */
        if (own == MR_ACTIVATION_SILU) config->activation = names[i].activation;
        if ((own == MR_ACTIVATION_GELU_TANH) == (names[i].activation != MR_ACTIVATION_SILU) ||
            own == MR_ACTIVATION_SILU)
            return MR_OK;
    }
    return mr_fail(err, MR_BAD_FILE, "activation \"%.*s\" is not supported in a %s model",
                   mr_model_config_shown(name), name.bytes, config->family->name);
}

/* ---- windows ---- */

static enum mr_status read_layer_types(struct mr_model_config *config,
                                       const struct mr_json_value *types, struct mr_error *err)
{
    if (mr_json_count(types) != config->layer_count)
        return mr_fail(err, MR_BAD_FILE, "layer_types does not list each of the %u layers",
                       config->layer_count);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        struct mr_text type = {"", 0};
        mr_json_text(mr_json_at(types, i), &type);
        bool slides = mr_text_is(type, "sliding_attention");
        if (!slides && !mr_text_is(type, "full_attention"))
            return mr_fail(err, MR_BAD_FILE, "layer type \"%.*s\" is not supported",
                           mr_model_config_shown(type), type.bytes);
        config->windowed[i] = slides && config->window > 0;
    }
    return MR_OK;
}

static enum mr_status read_windows(struct mr_model_config *config, struct json_reader *reader,
                                   struct mr_error *err)
{
    const struct mr_model_family *family = config->family;
    if (family->mixer) return mr_json_mixer_read(config, reader->root, err);
    bool named = mr_json_get(reader->root, "sliding_window") != NULL;
    config->window = get(reader, "sliding_window", named ? 0 : family->defaults.window);
    if (family->window_both_ways)
        config->window = get(reader, "local_attention", family->defaults.window) / 2 + 1;
    if (family->window_opt_in && !mr_json_bool_or(reader->root, "use_sliding_window", false))
        config->window = 0;
    const struct mr_json_value *types = mr_json_get(reader->root, "layer_types");
    if (mr_json_given(types)) return read_layer_types(config, types, err);
    if (family->window_both_ways) {
        const uint32_t interval = get(reader, "global_attn_every_n_layers", 3);
        for (uint32_t i = 0; i < MR_LAYERS_MAX; i++)
            config->windowed[i] = interval > 0 && i % interval != 0;
        return MR_OK;
    }
    uint32_t pattern = get(reader, "_sliding_window_pattern", family->defaults.window_pattern);
    pattern = get(reader, "sliding_window_pattern", pattern);
    pattern = get(reader, "global_attn_every_n_layers", pattern);
    uint32_t first = family->windows_above ? get(reader, "max_window_layers", 28) : 0;
    mr_model_config_set_windows(config, first, pattern);
    return MR_OK;
}

/* True when no layer has a rotary embedding. */
static bool lacks_rope(const struct mr_model_config *config, const struct json_reader *reader)
{
    struct mr_text kind = {"", 0};
    mr_json_text(mr_json_get(reader->root, "position_embedding_type"), &kind);
    return config->family->no_rope || (config->family->rope_opt_in && !mr_text_is(kind, "rope")) ||
           (config->family->rope_if_given && !has(reader, "rope_parameters") &&
            !has(reader, "rope_theta"));
}

/* no_rope_layers: 1 for each layer with rotary embedding, 0 for each without. */
static enum mr_status read_rope_layers(struct mr_model_config *config, struct json_reader *reader,
                                       struct mr_error *err)
{
    mr_model_config_assign_ropes(config);
    if (lacks_rope(config, reader)) memset(config->rope_of, MR_NO_ROPE, sizeof(config->rope_of));
    uint32_t interval = config->family->rope_interval;
    if (interval == 0) return MR_OK;
    interval = get(reader, "no_rope_layer_interval", interval);
    const struct mr_json_value *list = mr_json_get(reader->root, "no_rope_layers");
    if (mr_json_given(list) && mr_json_count(list) != config->layer_count)
        return mr_fail(err, MR_BAD_FILE, "no_rope_layers does not list each of the %u layers",
                       config->layer_count);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        int64_t has_rope = interval == 0 || (i + 1) % interval != 0;
        if (mr_json_given(list)) mr_json_int(mr_json_at(list, i), &has_rope);
        config->rope_of[i] = has_rope ? 0 : MR_NO_ROPE;
    }
    return MR_OK;
}

/* ---- experts ---- */

/* Returns the number under the first key of a list that is given; the list ends with NULL. */
static uint32_t get_first(struct json_reader *reader, const char *const *keys, uint32_t fallback)
{
    for (; *keys; keys++)
        if (has(reader, *keys)) return need(reader, *keys);
    return fallback;
}

/* Sets which layers have experts. */
static void read_routed_layers(struct mr_model_config *config, struct json_reader *reader)
{
    static const char *const dense_keys[] = {"first_k_dense_replace", "num_dense_layers",
                                             "moe_layer_start_index", NULL};
    const uint32_t step = get(reader, "decoder_sparse_step", get(reader, "moe_layer_interval", 1));
    const uint32_t first = get_first(reader, dense_keys, config->family->defaults.dense_layers);
    const double last = mr_json_number_or(reader->root, "moe_layer_end_index", -1.0);
    for (uint32_t i = 0; i < MR_LAYERS_MAX; i++)
        config->routed[i] =
            step > 0 && (i + 1) % step == 0 && i >= first && (last < 0.0 || i <= last);
    const struct mr_json_value *dense = mr_json_get(reader->root, "mlp_only_layers");
    for (size_t i = 0; i < mr_json_count(dense); i++) {
        int64_t layer;
        if (mr_json_int(mr_json_at(dense, i), &layer) && layer >= 0 && layer < MR_LAYERS_MAX)
            config->routed[layer] = false;
    }
    const struct mr_json_value *types = mr_json_get(reader->root, "mlp_layer_types");
    for (size_t i = 0; i < mr_json_count(types) && i < MR_LAYERS_MAX; i++) {
        struct mr_text type = {"", 0};
        mr_json_text(mr_json_at(types, i), &type);
        config->routed[i] = mr_text_is(type, "sparse");
    }
}

static void read_groups(struct mr_expert_config *experts, struct json_reader *reader,
                        enum mr_routing routing)
{
    struct mr_text method = {"", 0};
    mr_json_text(mr_json_get(reader->root, "topk_method"), &method);
    if (routing < MR_ROUTING_GROUPS || routing == MR_ROUTING_BIASED) return;
    /* DeepSeek V2 has the keys of groups in models that do not use them. */
    if (routing == MR_ROUTING_GROUPS && !mr_text_is(method, "group_limited_greedy")) return;
    experts->group_count = get(reader, "n_group", 1);
    experts->groups_kept = get(reader, "topk_group", 1);
}

static void read_experts(struct mr_model_config *config, struct json_reader *reader)
{
    static const char *const counts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                         "moe_num_experts", NULL};
    static const char *const used[] = {"moe_k", "moe_topk", NULL};
    static const char *const shared[] = {"n_shared_experts", "num_shared_experts",
                                         "moe_num_shared_experts", "num_shared_expert", NULL};
    const struct mr_model_family *family = config->family;
    struct mr_expert_config *experts = &config->experts;
    experts->count = get_first(reader, counts, 0);
    if (experts->count == 0) return;
    mr_model_config_begin_experts(config);
    experts->top_k = has(reader, "num_experts_per_tok") ? need(reader, "num_experts_per_tok")
                                                        : get_first(reader, used, 0);
    experts->ffn_size =
        get(reader, "moe_intermediate_size",
            family->shared_mlp ? need(reader, "intermediate_size") : config->ffn_size);
    experts->shared_ffn_size = get(reader, "shared_expert_intermediate_size", 0);
    if (family->shared_mlp)
        experts->shared_ffn_size = config->ffn_size;
    else if (family->plain_shared)
        experts->shared_ffn_size = get_first(reader, shared, 1) * experts->ffn_size;
    experts->biased = experts->biased && mr_json_bool_or(reader->root, "use_expert_bias", true);
    if (family->routing == MR_ROUTING_KEY || family->routing == MR_ROUTING_PAIRS ||
        family->routing == MR_ROUTING_SIGMOID)
        experts->normalized = mr_json_bool_or(reader->root, "norm_topk_prob", experts->normalized);
    experts->scale = (float)mr_json_number_or(reader->root, "route_scale", 1.0);
    if (family->routing >= MR_ROUTING_GROUPS)
        experts->scale =
            (float)mr_json_number_or(reader->root, "routed_scaling_factor", experts->scale);
    experts->sum_min = (float)mr_json_number_or(reader->root, "moe_norm_min", 0.0);
    /* Without noise only the best of the experts passes: the margin is not 0, which means none. */
    if (family->routing == MR_ROUTING_MIXER)
        experts->mixer_margin =
            fmaxf(FLT_MIN, (float)(2.0 * mr_json_number_or(reader->root, "router_jitter_noise",
                                                           family->defaults.jitter_noise)));
    read_groups(experts, reader, family->routing);
    read_routed_layers(config, reader);
}

/* ---- unsupported keys ---- */

/* Keys of features of other models: accepted when absent, null, false, 0 or `harmless`, and in
 * families that read them. */
static const struct {
    const char *key, *harmless;
    double harmless_number;
} foreign_keys[] = {
    {"kv_lora_rank", NULL, 0},
    {"q_lora_rank", NULL, 0},
    {"clip_qkv", NULL, 0},
    {"use_bidirectional_attention", NULL, 0},
    {"is_encoder_decoder", NULL, 0},
    {"add_cross_attention", NULL, 0},
    {"cross_attention_layers", NULL, 0},
    {"attention_chunk_size", NULL, 0},
    {"attn_temperature_tuning", NULL, 0},
    {"dual_chunk_attention_config", NULL, 0},
    {"use_qk_norm", NULL, 0},
    {"qk_layernorm", NULL, 0},
    {"alibi", NULL, 0},
    {"use_cla", NULL, 0},
    {"position_embedding_type", "rope", 0},
    {"n_shared_experts", NULL, 0},
    {"num_nextn_predict_layers", NULL, 0},
    {"shared_intermediate_size", NULL, 0},
    {"n_group", NULL, 1},
    {"topk_group", NULL, 1},
    {"scoring_func", "softmax", 0},
    {"moe_layer_freq", NULL, 1},
    {"routed_scaling_factor", NULL, 1},
    {"swiglu_alpha", NULL, 1.702},
    {"swiglu_limit", NULL, 7},
};

/* True for keys of the list that a family does read. */
static bool reads(const struct mr_model_family *family, const char *key)
{
    static const char *const router[] = {"n_shared_experts", "num_nextn_predict_layers",
                                         "n_group",          "topk_group",
                                         "scoring_func",     "routed_scaling_factor"};
    for (size_t i = 0;
         family->routing >= MR_ROUTING_GROUPS && i < sizeof(router) / sizeof(router[0]); i++)
        if (strcmp(key, router[i]) == 0) return true;
    return (family->shared_mlp && strcmp(key, "shared_intermediate_size") == 0) ||
           (family->head_norm != MR_HEAD_NORM_NONE &&
            (strcmp(key, "use_qk_norm") == 0 || strcmp(key, "qk_layernorm") == 0)) ||
           (family->clips && strcmp(key, "clip_qkv") == 0) ||
           (family->latent && strstr(key, "lora_rank")) ||
           (family->rope_opt_in && strcmp(key, "position_embedding_type") == 0);
}

static bool is_harmless(const struct mr_model_family *family, const struct mr_json_value *value,
                        size_t index)
{
    const char *harmless = foreign_keys[index].harmless;
    if (family->positions && strcmp(foreign_keys[index].key, "position_embedding_type") == 0)
        harmless = "absolute"; /* its other values are kinds of relative positions */
    struct mr_text text;
    double number;
    bool truth;
    if (!mr_json_given(value)) return true;
    if (mr_json_bool(value, &truth)) return !truth;
    if (mr_json_number(value, &number))
        return number == 0.0 || number == foreign_keys[index].harmless_number;
    if (mr_json_text(value, &text)) return harmless && mr_text_is(text, harmless);
    return mr_json_count(value) == 0;
}

static enum mr_status reject(const struct mr_model_config *config, const struct json_reader *reader,
                             struct mr_error *err)
{
    if (reader->wrong)
        return mr_fail(err, MR_BAD_FILE, "config.json: \"%s\" is missing or not a valid number",
                       reader->wrong);
    for (size_t i = 0; i < sizeof(foreign_keys) / sizeof(foreign_keys[0]); i++)
        if (!reads(config->family, foreign_keys[i].key) &&
            !is_harmless(config->family, mr_json_get(reader->root, foreign_keys[i].key), i))
            return mr_fail(err, MR_BAD_FILE,
                           "config.json: \"%s\" has a value that is not supported in a %s model",
                           foreign_keys[i].key, config->family->name);
    if (config->window > 0 && config->family->routing == MR_ROUTING_KEY &&
        config->family->window_opt_in && !has(reader, "layer_types"))
        return mr_fail(err, MR_BAD_FILE,
                       "config.json: use_sliding_window needs the key layer_types");
    return MR_OK;
}

/* ---- the configuration ---- */

/* True for models whose text part, described in text_config, is one of the families. */
static bool wraps_text(struct mr_text type)
{
    static const char *const names[] = {"gemma3",   "mistral3",   "qwen3_5",  "qwen3_5_moe",
                                        "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe",
                                        "internvl", "smolvlm"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (mr_text_is(type, names[i])) return true;
    return false;
}

static enum mr_status find_family(struct mr_model_config *config, struct json_reader *reader,
                                  struct mr_error *err)
{
    struct mr_text type;
    if (!mr_json_text(mr_json_get(reader->outer, "model_type"), &type))
        return mr_fail(err, MR_BAD_FILE, "config.json: \"model_type\" is missing");
    config->wraps_text = wraps_text(type);
    /* Without text_config the sizes are at the top level, in a family with that alias. */
    const bool flat = mr_text_is(type, "qwen2_vl") || mr_text_is(type, "qwen2_5_vl");
    if (config->wraps_text && !(flat && !has(reader, "text_config"))) {
        reader->root = mr_json_get(reader->outer, "text_config");
        if (!mr_json_text(mr_json_get(reader->root, "model_type"), &type))
            return mr_fail(err, MR_BAD_FILE,
                           "config.json: \"model_type\" of \"text_config\" is missing");
    }
    return mr_model_family_find(&config->family, type, false, err);
}

enum mr_status mr_model_config_from_json(struct mr_model_config *out,
                                         const struct mr_json_value *root, struct mr_error *err)
{
    *out = (struct mr_model_config){0};
    struct json_reader reader = {.root = root, .outer = root};
    enum mr_status status = find_family(out, &reader, err);
    if (status != MR_OK) return status;
    mr_model_config_begin(out);
    read_sizes(out, &reader);
    read_scales(out, reader.root);
    read_experts(out, &reader);
    mr_model_config_add_eos_json(out, mr_json_get(root, "eos_token_id"), UINT32_MAX);
    mr_model_config_add_eos_json(out, mr_json_get(reader.root, "eos_token_id"), UINT32_MAX);
    status = read_windows(out, &reader, err);
    if (status == MR_OK && out->family->part_scales)
        status = mr_part_scales_read(&out->scales, reader.root, err);
    if (status == MR_OK) status = read_activation(out, reader.root, err);
    if (status == MR_OK) status = reject(out, &reader, err);
    if (status == MR_OK) status = mr_json_latent_read(out, reader.root, err);
    if (status == MR_OK) status = mr_json_rope_read(out, reader.root, err);
    if (status == MR_OK) status = read_rope_layers(out, &reader, err);
    return status == MR_OK ? mr_model_config_check(out, err) : status;
}
