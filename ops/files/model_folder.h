/* model_folder - a Hugging Face folder into a model source: config.json, generation_config.json,
 * tokenizer.json, tokenizer_config.json, chat_template.jinja, *.safetensors. The first and the
 * third must be there, and the weights.
 *
 * Owner, memory, errors: those of ops/files/model_source.h. */
#ifndef MR_OPS_FILES_MODEL_FOLDER_H
#define MR_OPS_FILES_MODEL_FOLDER_H

#include "ops/files/model_source.h"

/* out is zeroed but for NaN defaults; on failure it may be half filled and is closed by the caller.
 */
enum mr_status mr_model_folder_read(struct mr_model_source *out, const char *folder,
                                    struct mr_error *err);

#endif
