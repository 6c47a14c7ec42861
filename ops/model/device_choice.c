#include "ops/model/device_choice.h"

#include "ops/cpu/cpu_backend.h"
#include "ops/cuda/kernel_table.h"
#include "ops/torch/torch_backend.h"

#include <string.h>

enum mr_status mr_device_choice_find_backend(const struct mr_backend **out, const char *name,
                                             struct mr_device device, enum mr_number number,
                                             struct mr_error *err)
{
    const bool on_cpu = device.kind == MR_DEVICE_CPU;
    *out = NULL;
    const struct mr_backend *found = NULL;
    if (!name || strcmp(name, "auto") == 0)
        found = on_cpu && mr_cpu_backend.numbers[number] ? &mr_cpu_backend : &mr_torch_backend;
    else if (strcmp(name, mr_cpu_backend.name) == 0)
        found = &mr_cpu_backend;
    else if (strcmp(name, mr_torch_backend.name) == 0)
        found = &mr_torch_backend;
    if (!found)
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

const struct mr_cuda_kernels *mr_device_choice_cuda_kernels(void)
{
#ifdef MR_CUDA
    return &mr_cuda_kernels;
#else
    return NULL;
#endif
}
