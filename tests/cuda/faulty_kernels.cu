/* Kernels with faults that host/grid.h must detect, and correct ones, for test_grid.c. */
#include <cuda_runtime.h>

extern __shared__ __align__(16) unsigned char mr_cuda_shared[];

#define THREADS 64u

static __global__ void add_up(unsigned *out)
{
    unsigned *shared = reinterpret_cast<unsigned *>(mr_cuda_shared);
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    unsigned x = shared[THREADS - 1 - threadIdx.x];
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    if (__any_sync(0xffffffffu, threadIdx.x == 0) && threadIdx.x % 32 == 0) x += 1;
    if (threadIdx.x % 32 == 0) atomicAdd(out, x);
}

static __global__ void different_barriers(unsigned *)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

static __global__ void barrier_of_some(unsigned *)
{
    if (threadIdx.x != 5) __syncthreads();
}

static __global__ void shuffle_of_some(unsigned *out)
{
    if (threadIdx.x % 32 < 20) *out = __shfl_xor_sync(0xffffffffu, 1u, 1);
}

static __global__ void lane_outside(unsigned *out)
{
    if (threadIdx.x % 32 < 16) *out = __shfl_sync(0xffffu, 1u, 20);
}

static __global__ void different_masks(unsigned *out)
{
    const unsigned mask = threadIdx.x % 2 ? 0xffffffffu : 0x7fffffffu;
    *out = __ballot_sync(mask, 1);
}

static __global__ void too_much_shared(unsigned *)
{
}

static __global__ void missing_barrier(unsigned *out)
{
    unsigned *shared = reinterpret_cast<unsigned *>(mr_cuda_shared);
    shared[threadIdx.x] = 1;
    if (shared[THREADS - 1 - threadIdx.x] != 1) atomicAdd(out, 1u);
}

static __global__ void copies_not_waited_for(unsigned *out)
{
    unsigned *shared = reinterpret_cast<unsigned *>(mr_cuda_shared);
    grid_copy_later(&shared[threadIdx.x], out, sizeof *out, sizeof *out);
    grid_end_batch();
}

static __global__ void copies_read_early(unsigned *out)
{
    static const unsigned ones[2] = {1, 1};
    unsigned *shared = reinterpret_cast<unsigned *>(mr_cuda_shared) + threadIdx.x;
    for (unsigned i = 0; i < 2; i++) {
        grid_copy_later(shared, &ones[i], sizeof *ones, sizeof *ones);
        grid_end_batch();
    }
    if (*shared != 1) atomicAdd(out, 1u);
    grid_copy_batches(1);
    if (*shared != 1) atomicAdd(out, 1u << 16); /* waited for the first copy */
    grid_copy_batches(0);
}

/* Runs the kernel of this number. Returns NULL or the error of the launch. */
extern "C" const char *faulty_run(unsigned number, unsigned *out)
{
    static void (*const kernels[])(unsigned *) = {
        add_up,           different_barriers, barrier_of_some,
        shuffle_of_some,  lane_outside,       different_masks,
        too_much_shared,  missing_barrier,    copies_not_waited_for,
        copies_read_early};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(3, 2);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = number == 6 ? 49 << 10 : THREADS * sizeof(unsigned);
    const cudaError_t code = cudaLaunchKernelEx(&config, kernels[number], out);
    return code == cudaSuccess ? nullptr : cudaGetErrorString(code);
}
