#include "ops/families/json_rope.h"

#include "ops/families/json_keys.h"

#include <math.h>
#include <string.h>

/* Reads a list of `count` numbers; false unless the list has exactly `count` numbers. */
static bool read_list(const struct mr_json_value *list, uint32_t count, float *out)
{
    double value;
    if (mr_json_count(list) != count) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!mr_json_number(mr_json_at(list, i), &value)) return false;
        out[i] = (float)value;
    }
    return true;
}

static double log_scale(double factor, double scale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * scale * log(factor) + 1.0;
}

/* Yarn (Peng et al., "YaRN", 2023). */
static void read_yarn(struct mr_model_config *config, struct mr_rope_config *rope,
                      const struct mr_json_value *from)
{
    double mscale = mr_json_number_or(from, "mscale", 0.0),
           all = mr_json_number_or(from, "mscale_all_dim", 0.0);
    rope->kind = MR_ROPE_YARN;
    rope->factor =
        mr_json_number_or(from, "factor", config->context_tokens / rope->original_context);
    rope->beta_fast = mr_json_number_or(from, "beta_fast", 0.0);
    rope->beta_slow = mr_json_number_or(from, "beta_slow", 0.0);
    if (rope->beta_fast == 0.0) rope->beta_fast = 32.0;
    if (rope->beta_slow == 0.0) rope->beta_slow = 1.0;
    rope->attention_factor = mscale != 0.0 && all != 0.0
                                 ? log_scale(rope->factor, mscale) / log_scale(rope->factor, all)
                                 : log_scale(rope->factor, 1.0);
    rope->attention_factor = mr_json_number_or(from, "attention_factor", rope->attention_factor);
    mr_model_config_extend_context(
        config, rope->factor, mr_json_number_or(from, "original_max_position_embeddings", 0.0));
}

/* Longrope (Ding et al., "LongRoPE", 2024). */
static enum mr_status read_long(struct mr_model_config *config, struct mr_rope_config *rope,
                                const struct mr_json_value *from, bool original_outside,
                                struct mr_error *err)
{
    uint32_t pairs = rope->rotary_dim / 2;
    double original = rope->original_context, factor = config->context_tokens / original;
    if (!original_outside) factor = mr_json_number_or(from, "factor", factor);
    rope->kind = MR_ROPE_LONG;
    rope->attention_factor =
        factor <= 1.0 ? 1.0 : sqrt(1.0 + log(factor) / log(rope->original_context));
    rope->attention_factor = mr_json_number_or(from, "attention_factor", rope->attention_factor);
    rope->attention_factor = mr_json_number_or(from, "short_mscale", rope->attention_factor);
    rope->long_attention_factor = mr_json_number_or(from, "long_mscale", 0.0);
    if (pairs > MR_ROPE_PAIRS_MAX ||
        !read_list(mr_json_get(from, "short_factor"), pairs, rope->divisors) ||
        !read_list(mr_json_get(from, "long_factor"), pairs, rope->long_divisors))
        return mr_fail(err, MR_BAD_FILE,
                       "longrope needs %u numbers in short_factor and in long_factor", pairs);
    return MR_OK;
}

static enum mr_status read_kind(struct mr_model_config *config, struct mr_rope_config *rope,
                                const struct mr_json_value *root, const struct mr_json_value *from,
                                struct mr_error *err)
{
    struct mr_text type = {"default", 7};
    if (!mr_json_text(mr_json_get(from, "rope_type"), &type))
        mr_json_text(mr_json_get(from, "type"), &type);
    bool outside = mr_json_given(mr_json_get(root, "original_max_position_embeddings"));
    double original =
        mr_json_number_or(from, "original_max_position_embeddings", (double)config->context_tokens);
    rope->original_context = mr_json_number_or(root, "original_max_position_embeddings", original);
    rope->factor = mr_json_number_or(from, "factor", 0.0);
    rope->temperature = mr_json_number_or(from, "llama_4_scaling_beta", 0.0);
    if (rope->temperature != 0.0) rope->temperature_tokens = original;
    bool has_lists = mr_json_given(mr_json_get(from, "long_factor"));
    if (mr_text_is(type, "longrope") || mr_text_is(type, "su") ||
        (mr_text_is(type, "yarn") && has_lists))
        return read_long(config, rope, from, outside, err);
    if (mr_text_is(type, "yarn")) {
        read_yarn(config, rope, from);
    } else if (mr_text_is(type, "llama3")) {
        rope->kind = MR_ROPE_LLAMA3;
        rope->low_freq = mr_json_number_or(from, "low_freq_factor", 0.0);
        rope->high_freq = mr_json_number_or(from, "high_freq_factor", 0.0);
        rope->original_context = mr_json_number_or(from, "original_max_position_embeddings", 0.0);
    } else if (mr_text_is(type, "linear")) {
        rope->kind = MR_ROPE_LINEAR;
    } else if (!mr_text_is(type, "default") && !mr_text_is(type, "dynamic") &&
               !mr_text_is(type, "mrope")) {
        /* "mrope" has positions in three dimensions, which are equal for text: then it is plain. */
        return mr_fail(err, MR_BAD_FILE, "rope scaling \"%.*s\" is not supported",
                       mr_model_config_shown(type), type.bytes);
    }
    return MR_OK;
}

/* Zeroes the fields that a kind of scaling does not use, so that equal ropes compare equal. */
static void clear_unused(struct mr_rope_config *rope)
{
    if (rope->kind == MR_ROPE_PLAIN || rope->kind == MR_ROPE_LONG) rope->factor = 0.0;
    if (rope->kind == MR_ROPE_PLAIN || rope->kind == MR_ROPE_LINEAR) rope->original_context = 0.0;
}

static enum mr_status read_one(struct mr_model_config *config, struct mr_rope_config *rope,
                               const struct mr_json_value *root, const struct mr_json_value *from,
                               double theta, struct mr_error *err)
{
    double usual = config->family->defaults.rotary_share;
    int64_t rotary;
    double share = mr_json_number_or(root, "partial_rotary_factor", usual > 0.0 ? usual : 1.0);
    share = mr_json_number_or(root, "rope_pct", share);
    share = mr_json_number_or(root, "rotary_pct", share);
    share = mr_json_number_or(from, "partial_rotary_factor", share);
    if (!(share > 0.0 && share <= 1.0))
        return mr_fail(err, MR_BAD_FILE, "partial_rotary_factor is %g", share);
    const uint32_t whole = config->latent.rank > 0 ? config->latent.rope_dim : config->head_dim;
    *rope = (struct mr_rope_config){.rotary_dim = (uint32_t)(share * whole)};
    if (config->family->rotary_key && mr_json_int(mr_json_get(root, "rotary_dim"), &rotary))
        rope->rotary_dim = rotary > 0 && rotary <= config->head_dim ? (uint32_t)rotary : 0;
    rope->theta = mr_json_number_or(from, "rope_theta", theta);
    /* Hunyuan's rope "dynamic" does not depend on the length of the text. */
    const double alpha = mr_json_number_or(from, "alpha", 0.0);
    if (alpha > 0.0 && rope->rotary_dim > 2)
        rope->theta *= pow(alpha, rope->rotary_dim / (rope->rotary_dim - 2.0));
    enum mr_status status = read_kind(config, rope, root, from, err);
    clear_unused(rope);
    return status;
}

/* The key truncate of yarn is read from `parameters` itself, also where that has an object for each
 * type of layer: the reference ignores it in these. */
static void read_truncate(struct mr_model_config *config, const struct mr_json_value *parameters)
{
    const bool keeps = !mr_json_bool_or(parameters, "truncate", true);
    for (uint32_t i = 0; i < config->rope_count; i++)
        config->ropes[i].keeps_fractions = keeps && config->ropes[i].kind == MR_ROPE_YARN;
}

static double window_theta(const struct mr_json_value *root,
                           const struct mr_family_defaults *defaults)
{
    double theta = mr_json_number_or(root, "local_rope_theta", defaults->window_rope_theta);
    return mr_json_number_or(root, "rope_local_base_freq", theta);
}

/* Sets the rope of layers with a window, when config.json has no object for it. */
static enum mr_status window_rope(struct mr_model_config *config, const struct mr_json_value *root,
                                  struct mr_error *err)
{
    const struct mr_family_defaults *defaults = &config->family->defaults;
    if (config->family->window_rope == MR_WINDOW_ROPE_SAME ||
        config->family->window_rope == MR_WINDOW_ROPE_ONLY)
        return MR_OK;
    config->rope_count = 2;
    double theta = config->ropes[0].theta;
    if (config->family->window_rope == MR_WINDOW_ROPE_OWN_BASE)
        theta = window_theta(root, defaults);
    return read_one(config, &config->ropes[1], root, NULL, theta, err);
}

enum mr_status mr_json_rope_read(struct mr_model_config *config, const struct mr_json_value *root,
                                 struct mr_error *err)
{
    const struct mr_json_value *parameters = mr_json_get(root, "rope_parameters");
    if (!mr_json_given(parameters)) parameters = mr_json_get(root, "rope_scaling");
    const struct mr_json_value *full = mr_json_get(parameters, "full_attention");
    const struct mr_json_value *sliding = mr_json_get(parameters, "sliding_attention");
    const struct mr_family_defaults *defaults = &config->family->defaults;
    double usual = defaults->rope_theta > 0.0 ? defaults->rope_theta : 10000.0;
    double theta = mr_json_number_or(root, "rotary_emb_base", usual);
    theta = mr_json_number_or(root, "rope_theta", theta);
    theta = mr_json_number_or(root, "global_rope_theta", theta); /* of ModernBERT */
    enum mr_status status = read_one(config, &config->ropes[0], root,
                                     mr_json_given(full) ? full : parameters, theta, err);
    if (status != MR_OK) return status;
    if (defaults->llama3_factor > 0.0 && !mr_json_given(parameters))
        /* The reference then ignores the key rope_theta, too. */
        config->ropes[0] = (struct mr_rope_config){.kind = MR_ROPE_LLAMA3,
                                                   .rotary_dim = config->ropes[0].rotary_dim,
                                                   .theta = usual,
                                                   .factor = defaults->llama3_factor,
                                                   .low_freq = 1.0,
                                                   .high_freq = 4.0,
                                                   .original_context = 8192.0};
    if (!mr_json_given(sliding)) {
        status = window_rope(config, root, err);
    } else {
        config->rope_count = 2;
        if (defaults->window_rope_theta > 0.0) theta = window_theta(root, defaults);
        status = read_one(config, &config->ropes[1], root, sliding, theta, err);
    }
    read_truncate(config, parameters);
    return status;
}
