#include "ops/model/torch_module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODULE "millrace-torch.so"

/* Where the library lies, seen from the folder of the program. */
static const char *const places[] = {MODULE, "../lib/millrace/" MODULE};

/* NULL: dlerror() says why the last place was refused. */
static void *load_module(void)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *end = strrchr(folder, '/');
    if (end) *end = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, places[i]);
        const bool last = i + 1 == sizeof(places) / sizeof(places[0]);
        if (!last && access(path, R_OK) != 0) continue;
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return NULL;
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
