/* load_torch - the backend on LibTorch, for tests; a test that cannot load it fails. */
#ifndef TESTS_UNIT_OPS_TORCH_LOAD_TORCH_H
#define TESTS_UNIT_OPS_TORCH_LOAD_TORCH_H

#include "ops/model/torch_module.h"

#include <stdio.h>
#include <stdlib.h>

static inline const struct mr_backend *torch_backend(void)
{
    const struct mr_backend *backend;
    struct mr_error err;
    if (mr_torch_module_backend(&backend, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        exit(1);
    }
    return backend;
}

#endif
