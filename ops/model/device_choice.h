/* backends - which backend computes on a device: the kernels of ops/cpu_kernels/ on the CPU,
 * LibTorch on a GPU and for numbers that those kernels do not have (fp16), unless the user names
 * one.
 *
 * Threads: pure functions, but for _probe, which a thread calls that computes on no GPU. Errors:
 * MR_BAD_CONFIG names the value. */
#ifndef MR_OPS_MODEL_DEVICE_CHOICE_H
#define MR_OPS_MODEL_DEVICE_CHOICE_H

#include "ops/backend/backend.h"

/* name: "auto" or NULL, "cpu", "torch". number: what the backend must compute in. */
enum mr_status mr_backends_find(const struct mr_backend **out, const char *name,
                                struct mr_device device, enum mr_number number,
                                struct mr_error *err);

/* Opens a device. compute: backend and number, not open. kernels: as in struct mr_device. The
 * caller closes *out; NULL on failure. Errors: those of the backend's open. */
enum mr_status mr_backends_open(struct mr_compute **out, const struct mr_compute *compute,
                                const char *device, const struct mr_cuda_kernels *kernels,
                                struct mr_error *err);
/* Opens a device as _open does and closes it again, unless it is the CPU: is it there, and does it
 * run the kernels? Sets *free_bytes to the memory that is free on it; 0 on the CPU. */
enum mr_status mr_backends_probe(const struct mr_compute *compute, const char *device,
                                 const struct mr_cuda_kernels *kernels, uint64_t *free_bytes,
                                 struct mr_error *err);

/* The CUDA kernels of this build, for the option cuda_kernels of a model; NULL: it has none. */
const struct mr_cuda_kernels *mr_backends_cuda_kernels(void);

#endif
