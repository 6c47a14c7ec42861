/* kernel_table - the launchers of cuda_kernels.h and sampling_kernels.h as one table. Code that
 * uses the launchers gets the table from its caller, so that it links without CUDA.
 * mr_torch_module_cuda_kernels (ops/model/torch_module.h) returns the table of a build with
 * MR_CUDA; tests pass a table of kernels compiled for the host (tests/cuda/README.md).
 *
 * Memory: constant. Threads, errors: as in cuda_kernels.h. */
#ifndef MR_OPS_CUDA_KERNEL_TABLE_H
#define MR_OPS_CUDA_KERNEL_TABLE_H

#include "ops/cuda/sampling_kernels.h"

struct mr_cuda_kernels {
    enum mr_status (*check_device)(struct mr_error *err);
    size_t (*decode_scratch_bytes)(const struct mr_cuda_decode *decode);
    enum mr_status (*decode_attention)(const struct mr_cuda_decode *decode, void *stream,
                                       struct mr_error *err);
    enum mr_status (*add_rms_norm)(const struct mr_cuda_add_norm *norm, void *stream,
                                   struct mr_error *err);
    enum mr_status (*rope_kv_write)(const struct mr_cuda_rope_write *write, void *stream,
                                    struct mr_error *err);
    enum mr_status (*gated_mul)(const struct mr_cuda_gated *gated, void *stream,
                                struct mr_error *err);
    enum mr_status (*sample)(const struct mr_cuda_sampling *sampling, void *stream,
                             struct mr_error *err);
    enum mr_status (*find_tokens)(const struct mr_cuda_find *find, void *stream,
                                  struct mr_error *err);
};

extern const struct mr_cuda_kernels mr_cuda_kernels;

#endif
