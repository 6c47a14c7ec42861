/* real_model - the path of the small real model that docker/deps.sh downloads. */
#ifndef MR_TESTS_OPS_REAL_MODEL_H
#define MR_TESTS_OPS_REAL_MODEL_H

#include <stdio.h>
#include <stdlib.h>

static inline const char *real_model_path(void)
{
    static char path[1024];
    const char *deps = getenv("MILLRACE_DEPS");
    snprintf(path, sizeof path, "%s/model/SmolLM2-135M-Instruct.Q4_1.gguf", deps ? deps : ".deps");
    return path;
}

#endif
