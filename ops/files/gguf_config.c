#include "ops/files/gguf_config.h"

#include "ops/files/end_tokens.h"
#include "ops/files/gguf_mixer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 128

/* Reads GGUF keys of the model's own architecture. */
struct reader {
    const struct mr_gguf *gguf;
    const struct mr_tensor_table *tensors;
    struct mr_text architecture;
    const char *missing; /* the first required key that is absent or not a number */
};

static const char *full_key(const struct reader *reader, const char *name, char buffer[KEY_BYTES])
{
    snprintf(buffer, KEY_BYTES, "%.*s.%s", mr_model_config_shown(reader->architecture),
             reader->architecture.bytes, name);
    return buffer;
}

static const struct mr_gguf_value *find(const struct reader *reader, const char *name)
{
    char key[KEY_BYTES];
    return mr_gguf_find(reader->gguf, full_key(reader, name, key));
}

static bool is_number(enum mr_gguf_type type)
{
    return type != MR_GGUF_TEXT && type != MR_GGUF_ARRAY && type != MR_GGUF_BOOL;
}

/* Some keys may have a value for each layer; such a key is read only if all values are equal. */
static bool common_number(const struct mr_gguf_value *value, double *out)
{
    if (!value || !value->is_array || value->count == 0 || !is_number(value->type)) return false;
    *out = mr_gguf_element_number(value, 0);
    for (uint64_t i = 1; i < value->count; i++)
        if (mr_gguf_element_number(value, i) != *out) return false;
    return true;
}

static uint32_t need(struct reader *reader, const char *name)
{
    char key[KEY_BYTES];
    uint32_t value = 0;
    double common = -1.0;
    if (mr_gguf_u32(reader->gguf, full_key(reader, name, key), &value)) return value;
    if (common_number(find(reader, name), &common) && common >= 0.0 && common < 4294967296.0)
        return (uint32_t)common;
    if (!reader->missing) reader->missing = name;
    return 0;
}

static uint32_t get(struct reader *reader, const char *name, uint32_t fallback)
{
    return find(reader, name) ? need(reader, name) : fallback;
}

static double number(const struct reader *reader, const char *name, double fallback)
{
    char key[KEY_BYTES];
    double value = fallback;
    mr_gguf_number(reader->gguf, full_key(reader, name, key), &value);
    return value;
}

static bool flag(const struct reader *reader, const char *name, bool fallback)
{
    char key[KEY_BYTES];
    bool value = fallback;
    mr_gguf_bool(reader->gguf, full_key(reader, name, key), &value);
    return value;
}

static bool layer_has_part(const struct reader *reader, const char *format, const char *suffix,
                           uint32_t layer)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%u.%s.%s", layer, format, suffix);
    return mr_tensor_table_find(reader->tensors, name) != NULL;
}

static bool layer_has(const struct reader *reader, const char *format, uint32_t layer)
{
    return layer_has_part(reader, format, "weight", layer);
}

/* ---- sizes and scales ---- */

static void read_sizes(struct mr_model_config *config, struct reader *reader)
{
    config->layer_count = need(reader, "block_count");
    config->extra_layers = get(reader, "nextn_predict_layers", 0);
    if (config->extra_layers < config->layer_count) config->layer_count -= config->extra_layers;
    config->hidden_size = need(reader, "embedding_length");
    config->head_count = need(reader, "attention.head_count");
    if (!config->family->mixer)
        config->kv_head_count = get(reader, "attention.head_count_kv", config->head_count);
    config->ffn_size = need(reader, "feed_forward_length");
    if (config->family->shared_mlp)
        config->ffn_size = get(reader, "expert_shared_feed_forward_length", config->ffn_size);
    config->context_tokens = need(reader, "context_length");
    const char *epsilon = config->family->centered_norms ? "attention.layer_norm_epsilon"
                                                         : "attention.layer_norm_rms_epsilon";
    config->norm_epsilon = (float)number(reader, epsilon, 0.0);
    uint32_t even = config->head_count > 0 ? config->hidden_size / config->head_count : 0;
    config->head_dim = get(reader, "attention.key_length", even);
    if (config->family->positions) config->position_rows = config->context_tokens;
    if (config->family->mixer)
        mr_gguf_mixer_read(config, reader->gguf, reader->architecture, reader->tensors);
}

/* GGUF has no key for the attention scale of Gemma. It follows from the head size, except in the
 * largest model, which is recognised by its number of layers. */
static double usual_attention_scale(const struct mr_model_config *config)
{
    uint32_t wide = config->family->gguf_wide_layers;
    if (wide > 0 && config->layer_count == wide && config->head_count > 0)
        return 1.0 / sqrt((double)(config->hidden_size / config->head_count));
    return 1.0 / sqrt((double)config->head_dim);
}

static void read_scales(struct mr_model_config *config, const struct reader *reader)
{
    const struct mr_model_family *family = config->family;
    config->attention_scale = (float)usual_attention_scale(config);
    config->attention_softcap =
        (float)number(reader, "attn_logit_softcapping", family->defaults.attention_softcap);
    config->logit_softcap =
        (float)number(reader, "final_logit_softcapping", family->defaults.logit_softcap);
    if (family->embedding_root) config->embedding_scale = sqrtf((float)config->hidden_size);
    if (family->defaults.logit_scale > 0.0)
        config->logit_scale = (float)number(reader, "logit_scale", family->defaults.logit_scale);
    if (family->clips) config->qkv_clip = (float)number(reader, "attention.clamp_kqv", 0.0);
    if (family->optional_head_norm && layer_has(reader, "attn_q_norm", 0))
        config->head_norm = family->head_norm;
    if (family->own_ffn_norm)
        config->parallel = flag(reader, "use_parallel_residual", true);
    else if (family->may_be_parallel)
        config->parallel = !layer_has(reader, "ffn_norm", 0);
    config->own_ffn_norm = family->own_ffn_norm
                               ? config->parallel
                               : family->grouped_decoder && layer_has(reader, "attn_norm_2", 0);
    if (!family->multipliers) return;
    config->embedding_scale = (float)number(reader, "embedding_scale", 1.0);
    config->attention_scale =
        (float)number(reader, "attention.scale", family->mixer ? config->attention_scale : 1.0);
    config->residual_scale = (float)number(reader, "residual_scale", 1.0);
    config->logit_scale = (float)(1.0 / number(reader, "logit_scale", 1.0));
}

/* ---- windows and experts ---- */

/* Element of an array of truth values or numbers; false for any other type. */
static bool element_is_set(const struct mr_gguf_value *value, uint64_t index)
{
    if (value->type == MR_GGUF_BOOL) return value->bytes[index] != 0;
    return is_number(value->type) && mr_gguf_element_number(value, index) != 0.0;
}

static void read_windows(struct mr_model_config *config, struct reader *reader)
{
    const struct mr_family_defaults *usual = &config->family->defaults;
    const struct mr_gguf_value *pattern = find(reader, "attention.sliding_window_pattern");
    /* A file of EXAONE 4 without the key has no windows. */
    const bool optional = config->family->window_rope == MR_WINDOW_ROPE_ONLY;
    config->window = get(reader, "attention.sliding_window", optional ? 0 : usual->window);
    if (!pattern || !pattern->is_array) {
        uint32_t every = get(reader, "attention.sliding_window_pattern", usual->window_pattern);
        mr_model_config_set_windows(config, 0, every);
        return;
    }
    for (uint32_t i = 0; i < MR_LAYERS_MAX && i < pattern->count; i++)
        config->windowed[i] = config->window > 0 && element_is_set(pattern, i);
}

/* Returns the size of the shared expert; 0: none. The key of files of ERNIE 4.5 has another number,
 * so the size is that of the tensor. */
static uint32_t shared_size(const struct reader *reader, uint32_t layer_count)
{
    for (uint32_t i = 0; i < layer_count && i < MR_LAYERS_MAX; i++) {
        char name[64];
        snprintf(name, sizeof(name), "blk.%u.ffn_up_shexp.weight", i);
        const struct mr_stored_tensor *up = mr_tensor_table_find(reader->tensors, name);
        if (up && up->dim_count == 2 && up->dims[0] <= UINT32_MAX) return (uint32_t)up->dims[0];
    }
    return 0;
}

static void read_experts(struct mr_model_config *config, struct reader *reader)
{
    struct mr_expert_config *experts = &config->experts;
    experts->count = get(reader, "expert_count", 0);
    if (experts->count == 0) return;
    experts->top_k = need(reader, "expert_used_count");
    experts->ffn_size =
        get(reader, "expert_feed_forward_length",
            config->family->shared_mlp ? need(reader, "feed_forward_length") : config->ffn_size);
    experts->shared_ffn_size = shared_size(reader, config->layer_count);
    mr_model_config_begin_experts(config);
    const uint32_t gating = get(reader, "expert_gating_func", 0);
    if (gating > 0) experts->sigmoid = gating == 2;
    experts->normalized = flag(reader, "expert_weights_norm", !config->family->gguf_unnormalized);
    experts->scale = (float)number(reader, "expert_weights_scale", 1.0);
    experts->biased = false;
    experts->group_count = get(reader, "expert_group_count", 1);
    experts->groups_kept = get(reader, "expert_group_used_count", 1);
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++) {
        config->routed[i] = layer_has(reader, "ffn_gate_inp", i);
        experts->biased |= layer_has_part(reader, "exp_probs_b", "bias", i);
    }
}

/* ---- rope ---- */

static enum mr_status hold_factors(const struct mr_tensor_table *tensors, struct mr_error *err)
{
    static const char *const names[] = {MR_GGUF_ROPE_FREQS, MR_GGUF_ROPE_SHORT, MR_GGUF_ROPE_LONG};
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < sizeof(names) / sizeof(names[0]); i++) {
        const struct mr_stored_tensor *tensor = mr_tensor_table_find(tensors, names[i]);
        if (tensor) status = mr_stored_tensor_hold(tensor, err);
    }
    return status;
}

/* Reads a tensor that has a factor for each pair; false when the file has no such tensor. */
static bool read_factors(const struct reader *reader, const char *name, uint32_t pairs, float *out,
                         bool *wrong)
{
    const struct mr_stored_tensor *tensor = mr_tensor_table_find(reader->tensors, name);
    if (!tensor) return false;
    bool fits = tensor->dim_count == 1 && tensor->dims[0] == pairs && pairs <= MR_ROPE_PAIRS_MAX &&
                tensor->storage == MR_STORAGE_F32;
    if (fits)
        mr_stored_tensor_row(tensor, 0, out);
    else
        *wrong = true;
    return fits;
}

static enum mr_status read_scaling(struct mr_model_config *config, struct reader *reader,
                                   struct mr_rope_config *rope, struct mr_error *err)
{
    char key[KEY_BYTES];
    struct mr_text type = {"none", 4};
    double original =
        number(reader, "rope.scaling.original_context_length", (double)config->context_tokens);
    rope->temperature = number(reader, "attention.temperature_scale", 0.0);
    const bool tempers = rope->temperature != 0.0;
    if (tempers) rope->temperature_tokens = original;
    /* rope.scale_linear is the older name */
    double factor = number(reader, "rope.scaling.factor", number(reader, "rope.scale_linear", 0.0));
    bool typed = mr_gguf_text(reader->gguf, full_key(reader, "rope.scaling.type", key), &type);
    if (!typed && factor != 0.0 && factor != 1.0)
        type =
            (struct mr_text){"linear", 6}; /* llama.cpp's assumption for a file without the key */
    rope->attention_factor = number(reader, "rope.scaling.attn_factor", 0.0);
    if (mr_text_is(type, "linear")) {
        rope->kind = MR_ROPE_LINEAR;
        rope->factor = factor;
    } else if (mr_text_is(type, "yarn")) {
        rope->kind = MR_ROPE_YARN;
        rope->factor = factor;
        rope->original_context = original;
        rope->beta_fast = number(reader, "rope.scaling.yarn_beta_fast", 32.0);
        rope->beta_slow = number(reader, "rope.scaling.yarn_beta_slow", 1.0);
        rope->keeps_fractions = config->family->yarn_keeps_fractions;
        double usual = rope->factor > 1.0 ? 0.1 * log(rope->factor) + 1.0 : 1.0;
        if (tempers) usual = 1.0; /* Ministral 3: mscale is mscale_all_dim */
        rope->attention_factor = number(reader, "rope.scaling.yarn_attn_factor", usual);
        /* the converter writes max_position_embeddings as context_length, extended or not */
        mr_model_config_extend_context(config, factor,
                                       number(reader, "rope.scaling.original_context_length", 0.0));
    } else if (mr_text_is(type, "longrope")) {
        rope->kind = MR_ROPE_LONG; /* its factors are tensors */
        rope->original_context = original;
    } else if (!mr_text_is(type, "none")) {
        return mr_fail(err, MR_BAD_FILE, "rope scaling \"%.*s\" is not supported",
                       mr_model_config_shown(type), type.bytes);
    }
    return MR_OK;
}

static enum mr_status read_rope(struct mr_model_config *config, struct reader *reader,
                                struct mr_error *err)
{
    struct mr_rope_config *rope = &config->ropes[0];
    rope->rotary_dim = get(reader, "rope.dimension_count", config->head_dim);
    rope->theta = number(reader, "rope.freq_base", 10000.0);
    enum mr_status status = read_scaling(config, reader, rope, err);
    if (status != MR_OK) return status;
    uint32_t pairs = rope->rotary_dim / 2;
    bool wrong = false;
    rope->has_divisors = read_factors(reader, MR_GGUF_ROPE_FREQS, pairs, rope->divisors, &wrong);
    if (read_factors(reader, MR_GGUF_ROPE_LONG, pairs, rope->long_divisors, &wrong)) {
        rope->kind = MR_ROPE_LONG;
        rope->original_context =
            number(reader, "rope.scaling.original_context_length", (double)config->context_tokens);
        (void)read_factors(reader, MR_GGUF_ROPE_SHORT, pairs, rope->divisors, &wrong);
    }
    if (wrong)
        return mr_fail(err, MR_BAD_FILE,
                       "the rope factors of the file are not F32 vectors of %u numbers", pairs);
    return MR_OK;
}

/* The rope of layers with a window. */
static void read_window_rope(struct mr_model_config *config, const struct reader *reader)
{
    if (config->family->window_rope == MR_WINDOW_ROPE_SAME ||
        config->family->window_rope == MR_WINDOW_ROPE_ONLY)
        return;
    const struct mr_rope_config *full = &config->ropes[0];
    double usual = config->family->defaults.window_rope_theta;
    config->rope_count = 2;
    config->ropes[1] = (struct mr_rope_config){.rotary_dim = full->rotary_dim};
    config->ropes[1].theta =
        number(reader, "rope.freq_base_swa", usual > 0.0 ? usual : full->theta);
}

/* ---- unsupported keys ---- */

/* Keys of features of other models: accepted when absent, when the number is `harmless` or 0, and
 * with `router` in families whose router has groups, a scale or sigmoid scores. */
static const struct {
    const char *name;
    double harmless;
    bool router;
} foreign_keys[] = {
    {"attention.kv_lora_rank", 0, false},
    {"attention.q_lora_rank", 0, false},
    {"attention.clamp_kqv", 0, false},
    {"attention.max_alibi_bias", 0, false},
    {"attention.chunk_size", 0, false},
    {"expert_group_count", 1, true},
    {"expert_group_used_count", 1, true},
    {"expert_weights_scale", 1, true},
    {"nextn_predict_layers", 0, true},
    {"rope.scaling.yarn_ext_factor", 1, false},
    {"rope.scaling.yarn_log_multiplier", 0, false},
    {"pooling_type", 0, false},
    {"moe_every_n_layers", 1, false},
};

static enum mr_status reject(struct reader *reader, const struct mr_model_config *config,
                             struct mr_error *err)
{
    if (reader->missing)
        return mr_fail(err, MR_BAD_FILE, "GGUF key \"%.*s.%s\" is missing or not a number",
                       mr_model_config_shown(reader->architecture), reader->architecture.bytes,
                       reader->missing);
    const bool routes = config->family->routing >= MR_ROUTING_GROUPS;
    for (size_t i = 0; i < sizeof(foreign_keys) / sizeof(foreign_keys[0]); i++) {
        double value = number(reader, foreign_keys[i].name, 0.0);
        if (routes && foreign_keys[i].router) continue;
        if (config->family->clips && strcmp(foreign_keys[i].name, "attention.clamp_kqv") == 0)
            continue;
        /* It changes the attention scale where the file has no temperature. */
        if (config->ropes[0].temperature != 0.0 &&
            strcmp(foreign_keys[i].name, "rope.scaling.yarn_log_multiplier") == 0)
            continue;
        if (value != 0.0 && value != foreign_keys[i].harmless)
            return mr_fail(err, MR_BAD_FILE, "GGUF key \"%.*s.%s\" with %g is not supported",
                           mr_model_config_shown(reader->architecture), reader->architecture.bytes,
                           foreign_keys[i].name, value);
    }
    uint32_t gating = get(reader, "expert_gating_func", 1);
    if (gating > 3 || (gating == 2 && !routes))
        return mr_fail(err, MR_BAD_FILE,
                       "experts are chosen by function %u, which is not supported in a %s model",
                       gating, config->family->name);
    if (!flag(reader, "attention.causal", true))
        return mr_fail(err, MR_BAD_FILE, "attention that is not causal is not supported");
    if (config->family->multipliers && !config->family->rope_opt_in &&
        !flag(reader, "rope.scaling.finetuned", true))
        return mr_fail(err, MR_BAD_FILE, "a %s model without rotary embedding is not supported",
                       config->family->name);
    if (get(reader, "attention.value_length", config->head_dim) != config->head_dim)
        return mr_fail(err, MR_BAD_FILE, "keys and values of different sizes are not supported");
    /* llama.cpp's converter reorders whole heads, and those of families in pair order not at all.
     */
    if (config->family->gguf_rotary_pairs && !config->family->folder_rotary_pairs &&
        config->ropes[0].rotary_dim != config->head_dim)
        return mr_fail(err, MR_BAD_FILE, "rotary size %u of a head of %u is not supported",
                       config->ropes[0].rotary_dim, config->head_dim);
    return MR_OK;
}

/* ---- the configuration ---- */

static enum mr_status read_vocabulary(struct mr_model_config *config,
                                      const struct mr_tensor_table *tensors, struct mr_error *err)
{
    const struct mr_stored_tensor *embedding = mr_tensor_table_find(tensors, "token_embd.weight");
    if (!embedding || embedding->dim_count != 2 || embedding->dims[0] > UINT32_MAX)
        return mr_fail(err, MR_BAD_FILE, "tensor \"token_embd.weight\" is missing");
    config->vocab_size = (uint32_t)embedding->dims[0];
    config->tied_head = mr_tensor_table_find(tensors, "output.weight") == NULL;
    return MR_OK;
}

/* Reads the end tokens that keys name, then finds those known by their text. */
static enum mr_status read_end_tokens(struct mr_model_config *config, const struct mr_gguf *gguf,
                                      struct mr_error *err)
{
    const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"};
    uint32_t id, ids[MR_END_TOKENS_MAX];
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (mr_gguf_u32(gguf, keys[i], &id)) mr_model_config_add_eos(config, id);
    const char *const list = "tokenizer.ggml.eos_token_ids";
    const struct mr_gguf_value *listed = mr_gguf_array(gguf, list, MR_GGUF_I32);
    if (!listed) listed = mr_gguf_array(gguf, list, MR_GGUF_U32);
    for (uint64_t i = 0; listed && i < listed->count && i < MR_EOS_IDS_MAX; i++) {
        const int64_t one = mr_gguf_element_int(listed, i);
        if (one >= 0 && one < config->vocab_size) mr_model_config_add_eos(config, (uint32_t)one);
    }
    const struct mr_gguf_value *tokens = mr_gguf_array(gguf, "tokenizer.ggml.tokens", MR_GGUF_TEXT);
    if (!tokens) return MR_OK;
    struct mr_text *texts = mr_gguf_texts(tokens);
    if (!texts) return mr_fail(err, MR_NOMEM, "no memory for the texts of the tokens");
    uint32_t count = mr_end_tokens_find(texts, (uint32_t)tokens->count, ids);
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] < config->vocab_size) mr_model_config_add_eos(config, ids[i]);
    free(texts);
    return MR_OK;
}

enum mr_status mr_model_config_from_gguf(struct mr_model_config *out, const struct mr_gguf *gguf,
                                         const struct mr_tensor_table *tensors,
                                         struct mr_error *err)
{
    *out = (struct mr_model_config){0};
    struct reader reader = {.gguf = gguf, .tensors = tensors};
    if (!mr_gguf_text(gguf, "general.architecture", &reader.architecture))
        return mr_fail(err, MR_BAD_FILE, "GGUF key \"general.architecture\" is missing");
    enum mr_status status = mr_model_family_find(&out->family, reader.architecture, true, err);
    if (status != MR_OK) return status;
    mr_model_config_begin(out);
    read_sizes(out, &reader);
    read_scales(out, &reader);
    read_windows(out, &reader);
    read_experts(out, &reader);
    status = hold_factors(tensors, err);
    if (status == MR_OK) status = read_vocabulary(out, tensors, err);
    if (status == MR_OK) status = read_end_tokens(out, gguf, err);
    if (status == MR_OK) status = read_rope(out, &reader, err);
    if (status != MR_OK) return status;
    read_window_rope(out, &reader);
    mr_model_config_assign_ropes(out);
    if (out->family->no_rope ||
        (out->family->rope_opt_in && !flag(&reader, "rope.scaling.finetuned", true)))
        memset(out->rope_of, MR_NO_ROPE, sizeof(out->rope_of));
    status = reject(&reader, out, err);
    return status == MR_OK ? mr_model_config_check(out, err) : status;
}
