/* config_json - reads the config.json of a Hugging Face folder into a struct mr_model_config. A key
 * that would change the computation and that no family describes is an error. In the config.json of
 * a model that also reads pictures (Gemma 3, Mistral Small 3), only the key text_config, the
 * configuration of the text part, is read.
 *
 * Threads: any (no state). Memory: none. Errors: MR_BAD_FILE names the key and the value. */
#ifndef MR_OPS_FAMILIES_CONFIG_JSON_H
#define MR_OPS_FAMILIES_CONFIG_JSON_H

#include "codec/wire/json.h"
#include "ops/families/model_config.h"

/* root: the top-level object of a config.json. */
enum mr_status mr_model_config_from_json(struct mr_model_config *out,
                                         const struct mr_json_value *root, struct mr_error *err);
/* Adds the end-of-sequence id, or list of ids, in a JSON value; ignores ids of `limit` and
 * above. */
void mr_model_config_add_eos_json(struct mr_model_config *config, const struct mr_json_value *value,
                                  uint32_t limit);

#endif
