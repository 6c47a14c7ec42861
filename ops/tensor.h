/* tensor - the C interface to LibTorch: tensors as opaque handles, and the operators that this
 * program uses.
 *
 * State:  none; LibTorch's allocator and thread pool belong to the process.
 * Owner:  the engine thread makes all calls, those during loading too: LibTorch creates a team of
 *         threads for each calling thread.
 * Memory: "new" results belong to the caller, who destroys them with mr_tensor_destroy; a data
 * pointer is borrowed from its tensor. Operators write to existing tensors and allocate nothing
 * that outlives the call. Errors: no C++ exception leaves these functions: MR_NOMEM when out of
 * memory, else MR_BACKEND with the first line of LibTorch's message. Device: chosen when a tensor
 * is created; operators run on the device of their tensors. */
#ifndef MR_OPS_TENSOR_H
#define MR_OPS_TENSOR_H

#include "ops/backend/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Turns off LibTorch's gradient and version tracking on the calling thread until the thread ends.
 * Call it on the thread that owns the model, before every other function here. */
enum mr_status mr_tensor_thread_begin(struct mr_error *err);

/* ---- tensors ---- */

struct mr_tensor;

enum mr_tensor_type { MR_TENSOR_F32, MR_TENSOR_U8 };
#define MR_TENSOR_DIMS_MAX 4u

struct mr_tensor_shape {
    enum mr_tensor_type type;
    uint32_t dim_count;
    int64_t dims[MR_TENSOR_DIMS_MAX]; /* size of each dimension, outermost first */
};

/* Creates a new contiguous tensor: contents undefined, data aligned to 64 bytes. */
enum mr_status mr_tensor_create(struct mr_tensor **out, struct mr_device device,
                                const struct mr_tensor_shape *shape, struct mr_error *err);
/* Creates a new tensor on host memory of the caller, who keeps the memory alive and in place as
 * long as the tensor. */
enum mr_status mr_tensor_wrap(struct mr_tensor **out, void *bytes,
                              const struct mr_tensor_shape *shape, struct mr_error *err);
/* tensor may be NULL. */
void mr_tensor_destroy(struct mr_tensor *tensor);

/* Returns the tensor's data, borrowed; for a tensor on a GPU this is GPU memory. */
void *mr_tensor_data(struct mr_tensor *tensor);
size_t mr_tensor_bytes(const struct mr_tensor *tensor);

/* out[rows, n] = x[rows, k] weight[n, k]^T, all of one type and on one device. Tests compare our
 * own linear kernels (ops/cpu/linear.c) with this function. */
enum mr_status mr_tensor_linear(struct mr_tensor *out, const struct mr_tensor *x,
                                const struct mr_tensor *weight, struct mr_error *err);

#ifdef __cplusplus
}
#endif

#endif
