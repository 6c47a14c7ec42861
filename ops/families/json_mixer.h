/* json_mixer - reads the recurrent layers of a config.json: their shape (ops/mixer/mixer_shape.h),
 * and which layers they are.
 *
 * Threads: any (no state). Memory: none. Errors: MR_BAD_FILE names the key and the value. */
#ifndef MR_OPS_FAMILIES_JSON_MIXER_H
#define MR_OPS_FAMILIES_JSON_MIXER_H

#include "codec/wire/json.h"
#include "ops/families/model_config.h"

/* Sets mixer, mixes and skips_attention of a family with recurrent layers. root: the object with
 * the model's sizes, which the caller has read before. */
enum mr_status mr_json_mixer_read(struct mr_model_config *config, const struct mr_json_value *root,
                                  struct mr_error *err);

#endif
