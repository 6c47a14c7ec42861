/* device_choice - chooses the backend of a device and opens the device. Unless the user names a
 * backend, the kernels of ops/cpu_kernels/ compute on the CPU, and LibTorch computes on a GPU and
 * in number formats that those kernels lack (fp16).
 *
 * Threads: pure functions, except _probe, which opens and closes a GPU and must run on a thread
 * that does not compute on one. Errors: MR_BAD_CONFIG quotes the value;
 * MR_BACKEND if the backend on LibTorch cannot be loaded (torch_module.h). */
#ifndef MR_OPS_MODEL_DEVICE_CHOICE_H
#define MR_OPS_MODEL_DEVICE_CHOICE_H

#include "ops/backend/backend.h"

/* name: "auto" or NULL, "cpu", "torch". number: the format that the backend must compute in. */
enum mr_status mr_device_choice_find_backend(const struct mr_backend **out, const char *name,
                                             struct mr_device device, enum mr_number number,
                                             struct mr_error *err);

/* Opens a device. compute: the chosen backend and number, not opened. kernels: as in struct
 * mr_device. The caller closes *out; NULL on failure. Errors: those of the backend's open. */
enum mr_status mr_device_choice_open(struct mr_compute **out, const struct mr_compute *compute,
                                     const char *device, const struct mr_cuda_kernels *kernels,
                                     struct mr_error *err);
/* Opens a GPU as _open does and closes it again, to learn whether it exists and runs the kernels.
 * Sets *free_bytes to its free memory. The CPU is not opened, and *free_bytes is 0. */
enum mr_status mr_device_choice_probe(const struct mr_compute *compute, const char *device,
                                      const struct mr_cuda_kernels *kernels, uint64_t *free_bytes,
                                      struct mr_error *err);

#endif
