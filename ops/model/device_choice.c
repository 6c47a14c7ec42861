#include "ops/model/device_choice.h"

#include "ops/cpu/cpu_backend.h"
#include "ops/model/torch_module.h"

#include <string.h>

enum mr_status mr_device_choice_find_backend(const struct mr_backend **out, const char *name,
                                             struct mr_device device, enum mr_number number,
                                             struct mr_error *err)
{
    const bool on_cpu = device.kind == MR_DEVICE_CPU;
    *out = NULL;
    const bool automatic = !name || strcmp(name, "auto") == 0;
    const struct mr_backend *found = &mr_cpu_backend;
    if (automatic ? !on_cpu || !found->numbers[number] : strcmp(name, MR_TORCH_BACKEND_NAME) == 0) {
        enum mr_status status = mr_torch_module_backend(&found, err);
        if (status != MR_OK) return status;
    } else if (!automatic && strcmp(name, found->name) != 0)
        return mr_fail(err, MR_BAD_CONFIG, "unknown backend \"%.32s\"; use auto, cpu or torch",
                       name);
    if (found == &mr_cpu_backend && !on_cpu)
        return mr_fail(err, MR_BAD_CONFIG,
                       "the backend cpu computes on the device cpu only; cuda needs torch");
    if (!found->numbers[number])
        return mr_fail(err, MR_BAD_CONFIG, "the backend %s cannot compute in %s", found->name,
                       mr_number_name(number));
    *out = found;
    return MR_OK;
}

enum mr_status mr_device_choice_open(struct mr_compute **out, const struct mr_compute *compute,
                                     const char *device, const struct mr_cuda_kernels *kernels,
                                     struct mr_error *err)
{
    struct mr_device place;
    *out = NULL;
    enum mr_status status = mr_device_parse(device, &place, err);
    if (status != MR_OK) return status;
    place.kernels = kernels;
    return compute->backend->open(out, place, compute->number, err);
}

enum mr_status mr_device_choice_probe(const struct mr_compute *compute, const char *device,
                                      const struct mr_cuda_kernels *kernels, uint64_t *free_bytes,
                                      struct mr_error *err)
{
    struct mr_device place;
    struct mr_compute *opened;
    *free_bytes = 0;
    enum mr_status status = mr_device_parse(device, &place, err);
    if (status != MR_OK || place.kind == MR_DEVICE_CPU) return status;
    status = mr_device_choice_open(&opened, compute, device, kernels, err);
    if (status != MR_OK) return status;
    *free_bytes = compute->backend->free_bytes(opened);
    compute->backend->close(opened);
    return MR_OK;
}
