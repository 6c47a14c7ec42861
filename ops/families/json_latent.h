/* json_latent - reads the sizes of latent attention (ops/mixer/latent_shape.h) from a config.json,
 * and the multipliers of MiniCPM 3.
 *
 * Threads: any (no state). Memory: none. Errors: MR_BAD_FILE names the key. */
#ifndef MR_OPS_FAMILIES_JSON_LATENT_H
#define MR_OPS_FAMILIES_JSON_LATENT_H

#include "codec/wire/json.h"
#include "ops/families/model_config.h"

/* Sets latent, head_dim, kv_head_count and attention_scale of a family with latent attention; does
 * nothing in other families. root: the object with the model's sizes, which the caller has read
 * before. */
enum mr_status mr_json_latent_read(struct mr_model_config *config, const struct mr_json_value *root,
                                   struct mr_error *err);

#endif
