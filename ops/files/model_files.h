/* model_files - reads the files of a model, a GGUF file, a folder with one GGUF file, or a Hugging
 * Face folder, and checks that the tokenizer fits the model.
 *
 * Owner, memory: as in ops/files/model_source.h.
 * Errors: MR_BAD_FILE names the file and the reason; MR_NOMEM. */
#ifndef MR_OPS_FILES_MODEL_FILES_H
#define MR_OPS_FILES_MODEL_FILES_H

#include "ops/files/model_source.h"

/* Reads the model at `path`. On failure *out is zeroed. */
enum mr_status mr_model_files_read(struct mr_model_source *out, const char *path,
                                   struct mr_error *err);

#endif
