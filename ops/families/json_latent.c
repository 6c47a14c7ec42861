#include "ops/families/json_latent.h"

#include "ops/families/json_keys.h"

#include <math.h>

static uint32_t size_or(const struct mr_json_value *root, const char *key, uint32_t usual)
{
    const double value = mr_json_number_or(root, key, usual);
    return value >= 0.0 && value <= UINT32_MAX && floor(value) == value ? (uint32_t)value : 0;
}

/* Returns the number under a key; `usual` if the file lacks the key, `none` if its value is null.
 */
static double multiplier(const struct mr_json_value *root, const char *key, double usual,
                         double none)
{
    return mr_json_number_or(root, key, mr_json_get(root, key) ? none : usual);
}

static void read_depth_scales(struct mr_model_config *config, const struct mr_json_value *root)
{
    const double depth = sqrt((double)config->layer_count), hidden = config->hidden_size;
    config->embedding_scale = (float)multiplier(root, "scale_emb", 12.0, 1.0);
    config->residual_scale = (float)(multiplier(root, "scale_depth", 1.4, depth) / depth);
    config->logit_scale = (float)(multiplier(root, "dim_model_base", 256.0, hidden) / hidden);
}

/* Rope scaling by a factor lengthens the scores too: by the square of the magnitude that
 * mscale_all_dim gives. The tables of sines have only the ratio of both magnitudes. */
static double score_scale(const struct mr_json_value *root)
{
    const struct mr_json_value *rope = mr_json_get(root, "rope_parameters");
    struct mr_text type = {"default", 7};
    if (!mr_json_given(rope)) rope = mr_json_get(root, "rope_scaling");
    if (!mr_json_text(mr_json_get(rope, "rope_type"), &type))
        mr_json_text(mr_json_get(rope, "type"), &type);
    const double factor = mr_json_number_or(rope, "factor", 1.0);
    const double all = mr_json_number_or(rope, "mscale_all_dim", 0.0);
    if (mr_text_is(type, "default") || factor <= 1.0) return 1.0;
    const double magnitude = 0.1 * all * log(factor) + 1.0;
    return magnitude * magnitude;
}

enum mr_status mr_json_latent_read(struct mr_model_config *config, const struct mr_json_value *root,
                                   struct mr_error *err)
{
    const struct mr_model_family *family = config->family;
    struct mr_latent_shape *latent = &config->latent;
    if (!family->latent) return MR_OK;
    const uint32_t even = config->head_count > 0 ? config->hidden_size / config->head_count : 0;
    *latent = (struct mr_latent_shape){.rank = size_or(root, "kv_lora_rank", 0),
                                       .rope_dim = size_or(root, "qk_rope_head_dim", 0),
                                       .nope_dim = size_or(root, "qk_nope_head_dim", 0),
                                       .value_dim = size_or(root, "v_head_dim", even),
                                       .query_rank = size_or(root, "q_lora_rank", 0),
                                       .norm_epsilon = 1e-6f, /* in the reference a constant */
                                       .pairs = family->folder_rotary_pairs};
    if (family->latent_halves)
        latent->pairs = mr_json_bool_or(root, "rope_interleave", latent->pairs);
    if (latent->rank == 0)
        return mr_fail(err, MR_BAD_FILE,
                       "config.json: \"kv_lora_rank\" is missing or not a valid number");
    config->head_dim = mr_latent_head(latent);
    config->kv_head_count = config->head_count;
    config->attention_scale = (float)(score_scale(root) / sqrt((double)config->head_dim));
    if (family->depth_scales) read_depth_scales(config, root);
    return MR_OK;
}
