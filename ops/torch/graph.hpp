/* graph - recorded decode steps (struct mr_graph_spec). The operations of a step read what differs
 * from step to step from one array on the device: token ids, positions, KV slots, lengths, block
 * tables. Repeating a step is one copy into this array and one launch; fed token ids are copied
 * into it on the device.
 *
 * On a CUDA device a graph is a CUDA graph, and its results are in memory that all graphs share:
 * the logits are copied from there before another graph runs. On the CPU, for tests, it is the walk
 * itself, which then reads no staged sequence.
 *
 * Padding: rows of a graph beyond those of the step have length 0 and slot -1, for which our
 * kernels attend to nothing and write no KV. So only steps that our kernels compute are recorded.
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
    void *cuda;          /* what cuda_graph_end has returned; NULL on the CPU */
};

/* Throws while a step is recorded: the operation needs `what`, which the host makes. */
void refuse_recording(struct mr_step *step, const char *what);

/* ---- torch_graph_cuda.cpp: the CUDA graph. In programs without MR_CUDA they throw. ---- */

/* What is enqueued on the thread's stream from here to cuda_graph_end is recorded and not run. */
void cuda_graph_begin(struct device *device);
/* Returns the graph. Ends the recording in any case, also when it throws. */
void *cuda_graph_end(struct device *device);
void cuda_graph_launch(const struct device *device, void *graph);
void cuda_graph_destroy(struct device *device, void *graph);

} // namespace mr_torch

#endif
