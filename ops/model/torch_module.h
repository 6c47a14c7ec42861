/* torch_module - loads the backend on LibTorch (ops/torch/torch_backend.h) when a model needs it.
 * The backend is a shared library of its own, millrace-torch.so, so that a program that does not
 * compute with LibTorch neither waits for LibTorch's start nor holds its memory. The library lies
 * next to the program (a build, a bundle) or in ../lib/millrace (an installation); it stays loaded
 * until the process ends.
 *
 * Threads: any. Memory: none to free. Errors: MR_BACKEND with the dynamic linker's message. */
#ifndef MR_OPS_MODEL_TORCH_MODULE_H
#define MR_OPS_MODEL_TORCH_MODULE_H

#include "ops/backend/backend.h"

#define MR_TORCH_BACKEND_NAME "torch"

/* Sets *out to the backend; NULL on failure. A second call returns the same backend. */
enum mr_status mr_torch_module_backend(const struct mr_backend **out, struct mr_error *err);

/* Returns the CUDA kernels that the library was built with; NULL: built without MR_CUDA, or it
 * cannot be loaded. */
const struct mr_cuda_kernels *mr_torch_module_cuda_kernels(void);

#endif
