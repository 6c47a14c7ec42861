#include "ops/model/torch_module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODULE "millrace-torch.so"

/* NULL: dlerror() says why. */
static void *load_module(void)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *end = strrchr(folder, '/');
    if (end) *end = '\0';
    snprintf(path, sizeof(path), "%s/" MODULE, folder);
    if (access(path, R_OK) != 0) snprintf(path, sizeof(path), "%s/../lib/millrace/" MODULE, folder);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

enum mr_status mr_torch_module_backend(const struct mr_backend **out, struct mr_error *err)
{
    void *module = load_module();
    *out = module ? dlsym(module, "mr_torch_backend") : NULL;
    if (!*out)
        return mr_fail(err, MR_BACKEND,
                       "the backend " MR_TORCH_BACKEND_NAME " cannot be loaded: %s", dlerror());
    return MR_OK;
}

const struct mr_cuda_kernels *mr_torch_module_cuda_kernels(void)
{
    void *module = load_module();
    return module ? dlsym(module, "mr_cuda_kernels") : NULL;
}
