/* torch_backend - the backend (ops/backend/backend.h) on LibTorch's at:: operators: the same code
 * for the devices cpu and cuda, in fp32, bf16 and fp16. This header is C; the files that implement
 * it are C++ and the only ones that include LibTorch.
 *
 *   ops/torch/torch_device.cpp                opening a device, the table
 *   ops/torch/torch_shim.cpp                  errors, copies of indexes to the device
 *   ops/torch/torch_weights.cpp               vectors, ropes, linear layers
 *   ops/torch/torch_kv.cpp                    the KV pool: copies, export, import
 *   ops/torch/torch_step.cpp                  buffers of a step, norms, linear layers
 *   ops/torch/torch_search.cpp                the search of the logits
 *   ops/torch/torch_experts.cpp               layers with experts
 *   ops/torch/torch_adapters.cpp              LoRA
 *   ops/torch/torch_rope.cpp                  norms and rotation of q and k, KV writes
 *   ops/torch/torch_attention.cpp             attention
 *   ops/torch/torch_mixer.cpp                 recurrent layers
 *   ops/torch/torch_latent.cpp                latent attention
 *   ops/torch/torch_kernels.cpp               on a GPU, the kernels of ops/cuda/ instead
 *   ops/torch/torch_kernel_attention.cpp      the same for attention
 *   ops/torch/torch_graph.cpp                 decode steps as graphs of those kernels
 *   ops/torch/torch_graph_cuda.cpp            the part that calls CUDA
 *
 * KV:      one tensor for each group of layers, [block][layer][K, V][kv head][token][dim]; the
 *          stored form of a block is its memory.
 * Attention: rows of decoding sequences attend together to their gathered blocks, with a partial
 * softmax for each block; each chunk of a prompt attends to its gathered history, in tiles of rows.
 * Linear:  in bf16 and fp32 on the CPU weights are packed by oneDNN.
 * Streams: on a GPU all operations run on one stream; copies that the host reads while a step is in
 * flight run on a second one.
 * Threads: the thread that opens a device makes all later calls. LibTorch gets as many threads as
 *          the parallel team has (ops/cpu_kernels/parallel.h).
 * Memory:  LibTorch's allocators; a step allocates its intermediate results.
 * Errors:  no C++ exception leaves these files: MR_NOMEM when out of memory, else MR_BACKEND with
 *          the first line of LibTorch's message. Errors of a step begin with the operation. */
#ifndef MR_OPS_TORCH_TORCH_BACKEND_H
#define MR_OPS_TORCH_TORCH_BACKEND_H

#include "ops/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct mr_backend mr_torch_backend;

#ifdef __cplusplus
}
#endif

#endif
