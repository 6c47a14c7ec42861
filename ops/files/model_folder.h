/* model_folder - reads a Hugging Face folder into a model source. Required: config.json, a
 * tokenizer and *.safetensors. Optional: generation_config.json, tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, chat_template.jinja and chat_template.json. The
 * tokenizer is the first of tokenizer.json, tekken.json and tokenizer.model (SentencePiece) that
 * the folder has. Two named chat templates are read: "default" and "tool_use" (or
 * additional_chat_templates/tool_use.jinja).
 *
 * Owner, memory: as in ops/files/model_source.h. Errors: MR_BAD_FILE names the file and the reason;
 * MR_NOMEM. */
#ifndef MR_OPS_FILES_MODEL_FOLDER_H
#define MR_OPS_FILES_MODEL_FOLDER_H

#include "ops/files/model_source.h"

/* The caller zeroes *out and sets its name before the call. On failure *out may be partly filled,
 * and the caller closes it. */
enum mr_status mr_model_folder_read(struct mr_model_source *out, const char *folder,
                                    struct mr_error *err);

#endif
