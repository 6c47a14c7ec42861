/* model_gguf - reads a GGUF file into a model source.
 *
 * Owner, memory: as in ops/files/model_source.h. Errors: MR_BAD_FILE names the key or tensor and
 * the reason; MR_NOMEM. */
#ifndef MR_OPS_FILES_MODEL_GGUF_H
#define MR_OPS_FILES_MODEL_GGUF_H

#include "ops/files/model_source.h"

/* The caller zeroes *out and sets its name before the call; general.name replaces the name. On
 * failure *out may be partly filled, and the caller closes it. */
enum mr_status mr_model_gguf_read(struct mr_model_source *out, const char *path,
                                  struct mr_error *err);

#endif
