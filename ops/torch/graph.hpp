/* graph - recorded decode steps (struct mr_graph_spec). The operations of a step read all inputs
 * that differ between steps from one array on the device: token ids, positions, KV slots, lengths,
 * block tables. Replaying a graph is one copy into this array and one launch; fed token ids are
 * copied into the array on the device.
 *
 * On a CUDA device a graph is a CUDA graph. All graphs share the memory of their results, so the
 * logits are copied out before another graph runs. On the CPU, for tests, a graph is the walk
 * itself, which then reads no staged sequence.
 *
 * Padding: rows of a graph beyond those of the step have length 0 and slot -1, for which our
 * kernels attend to no token and write no KV. Only steps that our kernels compute are recorded.
 */
#ifndef MR_OPS_TORCH_GRAPH_HPP
#define MR_OPS_TORCH_GRAPH_HPP

#include "ops/torch/shim.hpp"

namespace mr_torch
{

struct graph {
    struct mr_graph_spec spec;
    struct device *device;
    at::Tensor inputs;            /* [bytes] on the device */
    struct array_place token_ids; /* [rows] int64 */
    struct array_place positions; /* [rows] int32 */
    struct array_place lengths;   /* [rows] int32 */
    struct array_place slots[2];  /* by group: [rows] int64 */
    struct array_place blocks[2]; /* by group: [rows][blocks_stride] int32 */
    uint32_t blocks_stride;
    struct mr_kv *kv[2]; /* by group: the pool; NULL: no layer has used it */
    at::Tensor logits;   /* [rows, width] where a CUDA graph writes them, in memory of the graphs */
    bool refused;        /* refuse_recording was called */
    void *cuda;          /* the result of cuda_graph_end; NULL on the CPU */
};

/* Throws while a step is recorded: the operation needs `what`, which the host computes. */
void refuse_recording(struct mr_step *step, const char *what);

/* ---- torch_graph_cuda.cpp: the CUDA graph. In programs without MR_CUDA they throw. ---- */

/* Operations enqueued on the thread's stream from here to cuda_graph_end are recorded and not
 * run. */
void cuda_graph_begin(struct device *device);
/* Ends the recording, also when it throws, and returns the graph. */
void *cuda_graph_end(struct device *device);
void cuda_graph_launch(const struct device *device, void *graph);
void cuda_graph_destroy(struct device *device, void *graph);

} // namespace mr_torch

#endif
