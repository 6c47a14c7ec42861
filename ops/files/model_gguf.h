/* model_gguf - reads a GGUF file into a model source.
 *
 * Owner, memory: those of ops/files/model_source.h. Errors: MR_BAD_FILE says which key or tensor
 * and why; MR_NOMEM. */
#ifndef MR_OPS_FILES_MODEL_GGUF_H
#define MR_OPS_FILES_MODEL_GGUF_H

#include "ops/files/model_source.h"

/* Before the call the caller sets out to zero, its default_temperature and default_top_p to NaN,
 * and its name, which general.name replaces. On failure out may be partly filled and the caller
 * closes it. */
enum mr_status mr_model_gguf_read(struct mr_model_source *out, const char *path,
                                  struct mr_error *err);

#endif
