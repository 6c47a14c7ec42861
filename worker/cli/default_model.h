/* default_model - finds the model of `millrace demo`: in .deps/model, where docker/deps.sh puts it,
 * or in share/millrace/model of an installation or a container image.
 *
 * Owner: main thread. Memory: none. Errors: MR_BAD_CONFIG when no folder has the file, or when its
 * path does not fit. */
#ifndef MR_WORKER_CLI_DEFAULT_MODEL_H
#define MR_WORKER_CLI_DEFAULT_MODEL_H

#include "codec/status.h"

#include <stddef.h>

#define MR_DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1"

enum mr_status mr_default_model_find(char *path, size_t size, struct mr_error *err);

#endif
