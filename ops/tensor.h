/* tensor - LibTorch behind a C door: tensors as opaque handles and the few operators this program
 * leaves to LibTorch.
 *
 * State:  none of its own; LibTorch's allocator and thread pool are the process's.
 * Owner:  the engine thread. LibTorch keeps one team of threads for each calling thread, so one
 *         thread alone makes these calls (loading happens on it as well).
 * Memory: "new" results belong to the caller, who gives them to mr_tensor_destroy; a data pointer
 *         is borrowed from its tensor. Operators write into tensors made before and allocate
 *         nothing that outlives the call.
 * Errors: no C++ exception leaves these functions: MR_NOMEM when memory is out, MR_BACKEND with
 *         LibTorch's first sentence otherwise.
 * Device: named when a tensor is made; operators run where their tensors are. */
#ifndef MR_OPS_TENSOR_H
#define MR_OPS_TENSOR_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Turns off gradient and version bookkeeping on the calling thread until it ends. Call once on the
 * thread that owns the model, before anything else here. */
enum mr_status mr_tensor_thread_begin(struct mr_error *err);

/* ---- tensors ---- */

struct mr_tensor;

enum mr_device_kind { MR_DEVICE_CPU, MR_DEVICE_CUDA };
struct mr_device {
    enum mr_device_kind kind;
    int32_t index; /* 0 for the CPU */
};
/* "cpu", "cuda" or "cuda:N"; MR_BAD_CONFIG for anything else. */
enum mr_status mr_device_parse(const char *text, struct mr_device *out, struct mr_error *err);

enum mr_tensor_type { MR_TENSOR_F32, MR_TENSOR_U8 };
#define MR_TENSOR_DIMS_MAX 4u

struct mr_tensor_shape {
    enum mr_tensor_type type;
    uint32_t dim_count;
    int64_t dims[MR_TENSOR_DIMS_MAX]; /* outermost first */
};

/* New, contiguous, contents undefined, data aligned to 64 bytes. */
enum mr_status mr_tensor_create(struct mr_tensor **out, struct mr_device device,
                                const struct mr_tensor_shape *shape, struct mr_error *err);
/* New view of host memory the caller keeps alive and unmoved as long as the tensor. */
enum mr_status mr_tensor_wrap(struct mr_tensor **out, void *bytes,
                              const struct mr_tensor_shape *shape, struct mr_error *err);
/* tensor may be NULL. */
void mr_tensor_destroy(struct mr_tensor *tensor);

/* Borrowed; device memory for a device tensor. */
void *mr_tensor_data(struct mr_tensor *tensor);
size_t mr_tensor_bytes(const struct mr_tensor *tensor);

/* out[rows, n] = x[rows, k] weight[n, k]^T, all of one type and device. The reference for our own
 * linear kernels. */
enum mr_status mr_tensor_linear(struct mr_tensor *out, const struct mr_tensor *x,
                                const struct mr_tensor *weight, struct mr_error *err);

#ifdef __cplusplus
}
#endif

#endif
