/* default_model - the newcomer's model, where docker/deps.sh put it: .deps beside the sources or
 * beside the program's folder, or the place where the image and an installation keep it.
 *
 * Owner: main thread. Memory: path is the caller's. Errors: MR_BAD_CONFIG when it is nowhere. */
#ifndef MR_WORKER_CLI_DEFAULT_MODEL_H
#define MR_WORKER_CLI_DEFAULT_MODEL_H

#include "codec/status.h"

#include <stddef.h>

#define MR_DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1"

enum mr_status mr_default_model_find(char *path, size_t size, struct mr_error *err);

#endif
