#include "ops/families/model_config.h"

#include "codec/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

uint32_t mr_model_config_padded_head(const struct mr_model_config *config)
{
    return (config->head_dim + 15u) / 16u * 16u;
}

uint32_t mr_model_config_pair_dim(const struct mr_model_config *config, bool gguf)
{
    const struct mr_model_family *family = config->family;
    return (gguf ? family->gguf_rotary_pairs : family->folder_rotary_pairs)
               ? config->ropes[0].rotary_dim
               : 0;
}

void mr_model_config_add_eos(struct mr_model_config *config, uint32_t id)
{
    for (uint32_t i = 0; i < config->eos_count; i++)
        if (config->eos_ids[i] == id) return;
    if (config->eos_count < MR_EOS_IDS_MAX) config->eos_ids[config->eos_count++] = id;
}

void mr_model_config_extend_context(struct mr_model_config *config, double factor,
                                    double original_tokens)
{
    double extended = factor * original_tokens;
    if (extended > config->context_tokens && extended <= UINT32_MAX)
        config->context_tokens = (uint32_t)extended;
}

int mr_model_config_shown(struct mr_text text)
{
    return (int)(text.length < 64 ? text.length : 64);
}

/* FNV-1a (Fowler, Noll, Vo) over the bytes of the divisors. */
static uint64_t hash_divisors(const struct mr_rope_config *rope)
{
    const struct mr_rope_config none = {0};
    if (!rope->has_divisors && rope->kind != MR_ROPE_LONG) rope = &none;
    const unsigned char *const lists[] = {(const unsigned char *)rope->divisors,
                                          (const unsigned char *)rope->long_divisors};
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < sizeof(rope->divisors); i++)
            hash = (hash ^ lists[list][i]) * 0x100000001b3u;
    return hash;
}

void mr_model_config_describe_rope(const struct mr_model_config *config, uint32_t index, char *out,
                                   size_t size)
{
    MR_ASSERT(index < config->rope_count);
    const struct mr_rope_config *rope = &config->ropes[index];
    int written =
        snprintf(out, size, "%d %u %a %a %a %a %a %a %a %d %a %a %a %a %llx", (int)rope->kind,
                 rope->rotary_dim, rope->theta, rope->factor, rope->low_freq, rope->high_freq,
                 rope->original_context, rope->beta_fast, rope->beta_slow, rope->keeps_fractions,
                 rope->attention_factor, rope->long_attention_factor, rope->temperature,
                 rope->temperature_tokens, (unsigned long long)hash_divisors(rope));
    MR_ASSERT(written > 0 && (size_t)written < size);
}

/* ---- for the readers ---- */

void mr_model_config_begin(struct mr_model_config *config)
{
    const struct mr_model_family *family = config->family;
    config->activation = family->activation;
    config->head_norm = family->optional_head_norm ? MR_HEAD_NORM_NONE : family->head_norm;
    config->embedding_scale = config->residual_scale = config->logit_scale = 1.0f;
    config->rope_count = 1;
    config->both_ways = family->encoder;
    config->pooling = family->encoder ? MR_MODEL_POOLING_MEAN : MR_MODEL_POOLING_LAST;
    config->parallel = family->parallel;
}

void mr_model_config_set_windows(struct mr_model_config *config, uint32_t first, uint32_t pattern)
{
    for (uint32_t i = 0; i < MR_LAYERS_MAX; i++)
        config->windowed[i] =
            config->window > 0 && i >= first && (pattern == 0 || (i + 1) % pattern != 0);
}

void mr_model_config_begin_experts(struct mr_model_config *config)
{
    const enum mr_routing routing = config->family->routing;
    struct mr_expert_config *experts = &config->experts;
    experts->sigmoid = routing == MR_ROUTING_SIGMOID;
    experts->biased = routing == MR_ROUTING_SIGMOID || routing == MR_ROUTING_BIASED;
    experts->group_pairs = routing == MR_ROUTING_SIGMOID || routing == MR_ROUTING_PAIRS;
    experts->normalized = routing != MR_ROUTING_KEY && routing != MR_ROUTING_GROUPS &&
                          !config->family->defaults.unnormalized;
    experts->scale = 1.0f;
}

static bool same_rope(const struct mr_model_config *config)
{
    char first[320], second[320];
    mr_model_config_describe_rope(config, 0, first, sizeof(first));
    mr_model_config_describe_rope(config, 1, second, sizeof(second));
    return strcmp(first, second) == 0;
}

void mr_model_config_assign_ropes(struct mr_model_config *config)
{
    uint32_t interval = config->family->rope_interval;
    bool any = false;
    for (uint32_t i = 0; i < config->layer_count && i < MR_LAYERS_MAX; i++)
        any |= config->windowed[i];
    if (config->rope_count > 1 && (!any || same_rope(config))) config->rope_count = 1;
    for (uint32_t i = 0; i < MR_LAYERS_MAX; i++) {
        config->rope_of[i] = config->rope_count > 1 && config->windowed[i] ? 1 : 0;
        if (interval > 0 && (i + 1) % interval == 0) config->rope_of[i] = MR_NO_ROPE;
        if (config->family->positions) config->rope_of[i] = MR_NO_ROPE;
        if (config->family->window_rope == MR_WINDOW_ROPE_ONLY && config->window > 0 &&
            !config->windowed[i])
            config->rope_of[i] = MR_NO_ROPE;
    }
}

/* ---- limits of every model ---- */

struct bound {
    const char *name;
    uint32_t value, min, max;
};

static enum mr_status check_bounds(const struct mr_model_config *c, struct mr_error *err)
{
    bool routes = c->experts.count > 0;
    const struct bound bounds[] = {
        {"number of layers", c->layer_count, 1, MR_LAYERS_MAX},
        {"hidden size", c->hidden_size, 2, 65536},
        {"number of heads", c->head_count, 1, 1024},
        {"number of key/value heads", c->kv_head_count, 1, c->head_count},
        {"head size", c->head_dim, 2, MR_HEAD_DIM_MAX},
        {"feed-forward size", c->ffn_size, c->family->mixer && c->family->mixer->alone ? 0 : 2,
         1u << 20},
        {"vocabulary size", c->vocab_size, 1, 1u << 22},
        {"context length", c->context_tokens, 1, 1u << 24},
        {"rotary size", c->ropes[0].rotary_dim, 2, c->head_dim},
        {"rotary size of layers with a window", c->ropes[c->rope_count - 1].rotary_dim, 2,
         c->head_dim},
        {"number of experts", c->experts.count, 0, MR_EXPERTS_MAX},
        {"number of experts for a token", c->experts.top_k, routes, c->experts.count},
        {"feed-forward size of an expert", c->experts.ffn_size, routes ? 2 : 0, 1u << 20},
        {"feed-forward size of the shared expert", c->experts.shared_ffn_size, 0, 1u << 20},
        {"number of token types", c->type_count, 0, 2},
        {"number of position embeddings", c->position_rows, 0, 1u << 20},
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

static bool all_positive(const float *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!positive((double)numbers[i])) return false;
    return true;
}

/* True for kinds that scale by a factor. */
static bool has_factor(enum mr_rope_kind kind)
{
    return kind == MR_ROPE_LINEAR || kind == MR_ROPE_LLAMA3 || kind == MR_ROPE_YARN;
}

static bool has_original(enum mr_rope_kind kind)
{
    return kind == MR_ROPE_LLAMA3 || kind == MR_ROPE_YARN || kind == MR_ROPE_LONG;
}

static enum mr_status check_rope(const struct mr_rope_config *rope, struct mr_error *err)
{
    uint32_t pairs = rope->rotary_dim / 2;
    if (rope->rotary_dim % 2 != 0 || !positive(rope->theta))
        return mr_fail(err, MR_BAD_FILE, "rotary size %u with base %g is not valid",
                       rope->rotary_dim, rope->theta);
    if (has_factor(rope->kind) && !positive(rope->factor))
        return mr_fail(err, MR_BAD_FILE, "rope scaling has no valid factor");
    if (has_original(rope->kind) && !positive(rope->original_context))
        return mr_fail(err, MR_BAD_FILE, "rope scaling lacks a valid original context");
    if (rope->kind == MR_ROPE_LLAMA3 &&
        (!positive(rope->low_freq) || !(rope->high_freq > rope->low_freq)))
        return mr_fail(err, MR_BAD_FILE, "llama3 rope scaling lacks valid frequencies");
    if (rope->kind == MR_ROPE_YARN &&
        (!positive(rope->beta_slow) || !positive(rope->beta_fast) || rope->theta == 1.0))
        return mr_fail(err, MR_BAD_FILE, "yarn rope scaling with betas %g and %g is not valid",
                       rope->beta_fast, rope->beta_slow);
    if (rope->attention_factor != 0.0 && !positive(rope->attention_factor))
        return mr_fail(err, MR_BAD_FILE, "the attention factor of rope is %g",
                       rope->attention_factor);
    if (rope->long_attention_factor != 0.0 && !positive(rope->long_attention_factor))
        return mr_fail(err, MR_BAD_FILE, "the attention factor of rope for long contexts is %g",
                       rope->long_attention_factor);
    if (rope->temperature != 0.0 &&
        (!positive(rope->temperature) || !positive(rope->temperature_tokens)))
        return mr_fail(err, MR_BAD_FILE,
                       "an attention temperature of %g for each %g tokens is not valid",
                       rope->temperature, rope->temperature_tokens);
    if (((rope->has_divisors || rope->kind == MR_ROPE_LONG) &&
         !all_positive(rope->divisors, pairs)) ||
        (rope->kind == MR_ROPE_LONG && !all_positive(rope->long_divisors, pairs)))
        return mr_fail(err, MR_BAD_FILE,
                       "rope needs a positive factor for each of %u pairs of a head", pairs);
    return MR_OK;
}

static enum mr_status check_scales(const struct mr_model_config *c, struct mr_error *err)
{
    const struct {
        const char *name;
        float value;
        bool may_be_zero;
    } scales[] = {
        {"the norm's epsilon", c->norm_epsilon, false},
        {"the attention scale", c->attention_scale, false},
        {"the cap of attention scores", c->attention_softcap, true},
        {"the cap of logits", c->logit_softcap, true},
        {"the limit of q, k and v", c->qkv_clip, true},
        {"the multiplier of embeddings", c->embedding_scale, false},
        {"the multiplier of residuals", c->residual_scale, false},
        {"the scale of logits", c->logit_scale, false},
    };
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
        if (!positive((double)scales[i].value) && !(scales[i].may_be_zero && scales[i].value == 0))
            return mr_fail(err, MR_BAD_FILE, "%s is missing or not a positive number",
                           scales[i].name);
    return MR_OK;
}

static enum mr_status check_groups(const struct mr_expert_config *experts, struct mr_error *err)
{
    const uint32_t groups = experts->group_count, kept = experts->groups_kept;
    if (groups <= 1) return MR_OK;
    if (experts->count % groups != 0 || kept == 0 || kept > groups ||
        experts->top_k > experts->count / groups * kept)
        return mr_fail(err, MR_BAD_FILE,
                       "%u experts for a token cannot be chosen from %u of %u groups of %u experts",
                       experts->top_k, kept, groups, experts->count);
    return MR_OK;
}

static enum mr_status check_heads(const struct mr_model_config *config, struct mr_error *err)
{
    if (config->head_count % config->kv_head_count != 0)
        return mr_fail(err, MR_BAD_FILE,
                       "%u heads cannot be divided evenly among %u key/value heads",
                       config->head_count, config->kv_head_count);
    if (config->head_count / config->kv_head_count > MR_GROUP_MAX)
        return mr_fail(err, MR_BAD_FILE,
                       "%u heads share %u key/value heads; at most %u each are supported",
                       config->head_count, config->kv_head_count, MR_GROUP_MAX);
    return MR_OK;
}

static enum mr_status check_mixer(const struct mr_model_config *config, struct mr_error *err)
{
    const struct mr_mixer_shape *m = &config->mixer;
    const bool heads = m->kind > MR_MIXER_CONV;
    const struct {
        const char *name;
        uint32_t value, min, max;
    } bounds[] = {
        {"length of the convolution", m->taps, 2, MR_MIXER_TAPS_MAX},
        {"number of heads", m->heads, heads, 4096},
        {"number of key heads", m->key_heads, heads, 4096},
        {"size of a key", m->key_dim, heads, MR_MIXER_KEY_DIM_MAX},
        {"size of a value", m->value_dim, 1, 65536},
    };
    if (m->kind == MR_MIXER_NONE) return MR_OK;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].min || bounds[i].value > bounds[i].max)
            return mr_fail(err, MR_BAD_FILE,
                           "the %s of recurrent layers is %u; %u to %u is supported",
                           bounds[i].name, bounds[i].value, bounds[i].min, bounds[i].max);
    if (heads && m->heads % m->key_heads != 0)
        return mr_fail(err, MR_BAD_FILE,
                       "%u heads of recurrent layers cannot be divided evenly among %u key heads",
                       m->heads, m->key_heads);
    if (heads && mr_mixer_out_width(m) % 2 != 0)
        return mr_fail(err, MR_BAD_FILE, "the outputs of recurrent layers are an odd number");
    return MR_OK;
}

static enum mr_status check_latent(const struct mr_model_config *config, struct mr_error *err)
{
    const struct mr_latent_shape *latent = &config->latent;
    const struct bound bounds[] = {
        {"rank of the latent", latent->rank, 2, MR_LATENT_MAX},
        {"rotary size of latent attention", latent->rope_dim, 2, MR_HEAD_DIM_MAX},
        {"size of a query without rotary embedding", latent->nope_dim, 2, MR_HEAD_DIM_MAX},
        {"size of a value", latent->value_dim, 2, MR_HEAD_DIM_MAX},
        {"rank of queries", latent->query_rank, 0, 65536},
    };
    if (latent->rank == 0) return MR_OK;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].min || bounds[i].value > bounds[i].max ||
            bounds[i].value % 2 != 0)
            return mr_fail(err, MR_BAD_FILE,
                           "the model's %s is %u; even numbers from %u to %u are supported",
                           bounds[i].name, bounds[i].value, bounds[i].min, bounds[i].max);
    if (config->ropes[0].rotary_dim != latent->rope_dim)
        return mr_fail(err, MR_BAD_FILE, "%u of %u rotary numbers of latent attention are rotated",
                       config->ropes[0].rotary_dim, latent->rope_dim);
    return MR_OK;
}

enum mr_status mr_model_config_check(const struct mr_model_config *config, struct mr_error *err)
{
    enum mr_status status = check_bounds(config, err);
    for (uint32_t i = 0; status == MR_OK && i < config->rope_count; i++)
        status = check_rope(&config->ropes[i], err);
    if (status == MR_OK) status = check_heads(config, err);
    if (status == MR_OK) status = check_scales(config, err);
    if (status == MR_OK) status = check_mixer(config, err);
    if (status == MR_OK) status = check_latent(config, err);
    if (status == MR_OK) status = check_groups(&config->experts, err);
    if (status == MR_OK && config->experts.count > 0 && !config->family->experts)
        status = mr_fail(err, MR_BAD_FILE, "a %s model with experts is not supported",
                         config->family->name);
    for (uint32_t i = 0; status == MR_OK && i < config->eos_count; i++)
        if (config->eos_ids[i] >= config->vocab_size)
            status = mr_fail(err, MR_BAD_FILE, "end token %u is outside the vocabulary of %u",
                             config->eos_ids[i], config->vocab_size);
    return status;
}
