/* json_rope - reads the rotary embeddings of a config.json. Older files have rope_theta,
 * rope_scaling and rope_local_base_freq; newer ones have rope_parameters instead, with an object
 * for each type of layer when the types differ (Gemma 3, OLMo 3).
 *
 * Threads: any (no state). Memory: none. Errors: MR_BAD_FILE names the key and the value. */
#ifndef MR_OPS_FAMILIES_JSON_ROPE_H
#define MR_OPS_FAMILIES_JSON_ROPE_H

#include "codec/wire/json.h"
#include "ops/families/model_config.h"

/* Sets ropes and rope_count. root: the object with the model's sizes, which the caller has read
 * before. */
enum mr_status mr_json_rope_read(struct mr_model_config *config, const struct mr_json_value *root,
                                 struct mr_error *err);

#endif
