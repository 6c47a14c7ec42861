/* device - the device and the number format in which a model is computed.
 *
 * Threads: pure functions. Memory: plain values. Errors: MR_BAD_CONFIG quotes the text. */
#ifndef MR_OPS_BACKEND_DEVICE_H
#define MR_OPS_BACKEND_DEVICE_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_device_kind { MR_DEVICE_CPU, MR_DEVICE_CUDA };
struct mr_cuda_kernels; /* ops/cuda/kernel_table.h */
struct mr_device {
    enum mr_device_kind kind;
    int32_t index; /* number of the GPU; 0 for the CPU */
    /* Our kernels for the backend torch, in place of LibTorch's operators; NULL: none. */
    const struct mr_cuda_kernels *kernels;
};
/* text: "cpu", "cuda" or "cuda:N". Sets kernels to NULL. */
enum mr_status mr_device_parse(const char *text, struct mr_device *out, struct mr_error *err);

/* The format of weights, of the inputs of linear layers and of the KV pool. */
enum mr_number { MR_NUMBER_F32, MR_NUMBER_BF16, MR_NUMBER_F16 };
/* The option --dtype. `auto` computes with the integers of the files where their format allows it,
 * and in bf16 otherwise. */
enum mr_dtype {
    MR_DTYPE_AUTO,
    MR_DTYPE_F32,
    MR_DTYPE_BF16,
    MR_DTYPE_F16,
    MR_DTYPE_INT8,
    MR_DTYPE_INT4
};
size_t mr_number_bytes(enum mr_number number);
const char *mr_number_name(enum mr_number number); /* "f32", "bf16" or "f16" */

#endif
