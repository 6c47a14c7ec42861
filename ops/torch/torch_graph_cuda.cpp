/* CUDA graphs through the CUDA runtime. While a graph is recorded, LibTorch allocates intermediate
 * results in a private pool of its caching allocator, so that no other code uses the memory that a
 * graph writes. The allocator is called only through its virtual functions, because programs do not
 * link with libtorch_cuda. */
#include "ops/torch/graph.hpp"
#include "ops/torch/kernels.hpp"

#ifdef MR_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

namespace mr_torch
{

#ifdef MR_CUDA

/* The pool of all graphs; LibTorch numbers its own pools from 1. */
static const c10::MempoolId_t graph_pool = {UINT64_MAX, 0};

static c10::cuda::CUDACachingAllocator::CUDAAllocator *allocator()
{
    return static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator *>(
        c10::getDeviceAllocator(at::kCUDA));
}

static void check(cudaError_t code, const char *what)
{
    TORCH_CHECK(code == cudaSuccess, what, ": ", cudaGetErrorString(code));
}

void cuda_graph_begin(struct device *device)
{
    const cudaStream_t stream = static_cast<cudaStream_t>(stream_of(device));
    allocator()->beginAllocateToPool(device->where.index(), graph_pool,
                                     [stream](cudaStream_t other) { return other == stream; });
    const cudaError_t code = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess) {
        allocator()->endAllocateToPool(device->where.index(), graph_pool);
        allocator()->releasePool(device->where.index(), graph_pool);
    }
    check(code, "cudaStreamBeginCapture");
}

void *cuda_graph_end(struct device *device)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launched = nullptr;
    cudaError_t code = cudaStreamEndCapture(static_cast<cudaStream_t>(stream_of(device)), &graph);
    allocator()->endAllocateToPool(device->where.index(), graph_pool);
    if (code == cudaSuccess) code = cudaGraphInstantiate(&launched, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    if (code != cudaSuccess) {
        (void)cudaGetLastError();
        allocator()->releasePool(device->where.index(), graph_pool);
    }
    check(code, "recording a CUDA graph");
    return launched;
}

void cuda_graph_launch(const struct device *device, void *graph)
{
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph),
                          static_cast<cudaStream_t>(stream_of(device))),
          "cudaGraphLaunch");
}

void cuda_graph_destroy(struct device *device, void *graph)
{
    (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
    (void)guarded(nullptr, [=] { allocator()->releasePool(device->where.index(), graph_pool); });
}

#else

void cuda_graph_begin(struct device *device)
{
    (void)device;
    TORCH_CHECK(false, "this program was built without MR_CUDA");
}

void *cuda_graph_end(struct device *device)
{
    cuda_graph_begin(device);
    return nullptr;
}

void cuda_graph_launch(const struct device *device, void *graph)
{
    (void)device, (void)graph;
    MR_ASSERT(false);
}

void cuda_graph_destroy(struct device *device, void *graph)
{
    cuda_graph_launch(device, graph);
}

#endif

} // namespace mr_torch
