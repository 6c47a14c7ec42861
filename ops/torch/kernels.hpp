/* kernels - the kernels of ops/cuda/ in place of LibTorch's operators, on a device that was opened
 * with a table of them. LibTorch's operators remain for every shape that no kernel handles.
 *
 * Each function returns false, and has enqueued nothing, when the device has no kernels or none for
 * this shape; the caller then uses operators. They run inside queued() (shim.hpp) and throw on
 * errors. */
#ifndef MR_OPS_TORCH_KERNELS_HPP
#define MR_OPS_TORCH_KERNELS_HPP

#include "ops/torch/shim.hpp"

namespace mr_torch
{

/* ---- torch_kernels.cpp ---- */

/* linear() with MR_ADD to MR_RESIDUAL: keeps y * scale for the following norm, which adds it. y:
 * numbers. */
bool kernel_add(struct mr_step *step, const at::Tensor &y, float scale);
/* Adds the kept branch of kernel_add to MR_RESIDUAL. Every user of MR_RESIDUAL except kernel_norm
 * calls it first. */
void settle_residual(struct mr_step *step);
/* MR_NORMED = norm(MR_RESIDUAL + the kept branch of kernel_add). */
bool kernel_norm(struct mr_step *step, const struct mr_norm *norm, uint32_t rows);
/* *out = activation(gate) * up; y: [rows, gates and ups], numbers. */
bool kernel_gated(const struct device *device, const at::Tensor &y, enum mr_epilogue epilogue,
                  at::Tensor *out);

/* True when the device draws tokens. */
bool kernel_draws(const struct device *device);
/* For a device that draws: the tokens of all queries from their edited logits: *tokens (-1: none)
 * and *probabilities, both [queries, 1]. Without `draw` the token is that of the largest logit. */
void kernel_draw(const struct mr_step *step, at::Tensor *tokens, at::Tensor *probabilities);

/* The inputs of the search for each query, [queries, 1]; undefined where mr_cuda_find takes
 * NULL. */
struct find_inputs {
    at::Tensor factors, masked, drawn, probabilities;
};
/* Computes the heads of the search's findings, [queries, MR_CUDA_FOUND_WORDS] words, and
 * search.tokens. */
bool kernel_find(struct mr_step *step, const struct find_inputs &inputs, at::Tensor *words);

/* ---- torch_kernel_attention.cpp ---- */

/* rope_write(); leaves the rotated q of the step in step->queries. MR_QKV: numbers. */
bool kernel_rope_write(struct mr_step *step, const struct mr_attention *attention);

/* The rows that kernels have attended to. */
struct attended {
    bool decodes; /* rows of sequences with one row */
    bool prompts; /* rows of sequences with more */
};
/* Attention from step->queries to MR_ATTENDED: decoding rows through our kernel, rows of prompts
 * through LibTorch's flash attention. */
struct attended kernel_attend(struct mr_step *step, const struct mr_attention *attention);

/* ---- shared by both files ---- */

enum mr_cuda_type cuda_type(const struct device *device);
/* The stream that LibTorch's operators use, a cudaStream_t. */
void *stream_of(const struct device *device);
/* True: enqueued. False: the kernel does not handle this shape. Throws when CUDA failed. */
bool enqueued(enum mr_status status, const struct mr_error &error);

} // namespace mr_torch

#endif
