/* device - shared by all kernels: numbers of the three storage types as floats, sums over a warp or
 * a thread block, and launches. Thread blocks are one-dimensional and consist of whole warps. */
#ifndef MR_OPS_CUDA_DEVICE_CUH
#define MR_OPS_CUDA_DEVICE_CUH

extern "C" {
#include "ops/cuda/cuda_kernels.h"
}

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define WARP      32u
#define ALL_LANES 0xffffffffu

/* Dynamic shared memory; the comment of each kernel describes its content. */
extern __shared__ __align__(16) unsigned char mr_cuda_shared[];

/* ---- numbers ---- */

__device__ inline float to_float(float x)
{
    return x;
}
__device__ inline float to_float(__half x)
{
    return __half2float(x);
}
__device__ inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float(float x)
{
    return x;
}
template <> __device__ inline __half from_float(float x)
{
    return __float2half_rn(x);
}
template <> __device__ inline __nv_bfloat16 from_float(float x)
{
    return __float2bfloat16_rn(x);
}

/* Eight numbers, which a thread loads or stores at once: one access of 16 bytes, or two of floats.
 */
#define PACK 8u
template <typename T> struct alignas(16) pack {
    T numbers[PACK];
};

template <typename T> __device__ inline void load_pack(const T *from, float *numbers)
{
    const pack<T> loaded = *reinterpret_cast<const pack<T> *>(from);
#pragma unroll
    for (unsigned i = 0; i < PACK; i++)
        numbers[i] = to_float(loaded.numbers[i]);
}

template <typename T> __device__ inline void store_pack(T *to, const float *numbers)
{
    pack<T> stored;
#pragma unroll
    for (unsigned i = 0; i < PACK; i++)
        stored.numbers[i] = from_float<T>(numbers[i]);
    *reinterpret_cast<pack<T> *>(to) = stored;
}

/* ---- sums; every thread of the warp or block calls them and gets the result ---- */

template <typename T> __device__ inline T warp_sum(T x)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}

__device__ inline float warp_max(float x)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lanes));
    return x;
}

/* shared: [32] floats that nothing else uses during the call. */
__device__ inline float block_sum(float x, float *shared)
{
    const unsigned lane = threadIdx.x % WARP;
    x = warp_sum(x);
    if (lane == 0) shared[threadIdx.x / WARP] = x;
    __syncthreads();
    return warp_sum(lane < blockDim.x / WARP ? shared[lane] : 0.0f);
}

/* ---- launches, on the host ---- */

static inline unsigned ceil_div(unsigned x, unsigned by)
{
    return x / by + (x % by != 0);
}

static inline bool is_aligned(const void *pointer)
{
    return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

/* Enqueues a kernel. */
template <typename... P, typename... A>
enum mr_status launch(const char *name, const cudaLaunchConfig_t &config, void (*kernel)(P...),
                      struct mr_error *err, A... arguments)
{
    const cudaError_t code = cudaLaunchKernelEx(&config, kernel, arguments...);
    if (code == cudaSuccess) return MR_OK;
    return mr_fail(err, MR_BACKEND, "CUDA kernel %s: %s", name, cudaGetErrorString(code));
}

/* Calls run with a number of the C++ type for `type`, and returns its status. */
template <typename F> enum mr_status with_type(enum mr_cuda_type type, const F &run)
{
    switch (type) {
    case MR_CUDA_F32:
        return run(float());
    case MR_CUDA_F16:
        return run(__half());
    case MR_CUDA_BF16:
        break;
    }
    return run(__nv_bfloat16());
}

static inline cudaLaunchConfig_t launch_shape(dim3 grid, unsigned threads, size_t shared_bytes,
                                              void *stream)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(stream);
    return config;
}

/* Errors: MR_UNSUPPORTED. */
static inline enum mr_status check_kv(const struct mr_cuda_kv *kv, struct mr_error *err)
{
    if (kv->head_dim == 0 || kv->head_dim % 16 != 0 || kv->head_dim > 256)
        return mr_fail(err, MR_UNSUPPORTED, "head_dim %u is not a multiple of 16 up to 256",
                       kv->head_dim);
    if (kv->block_tokens < 16 || kv->block_tokens > 256 ||
        (kv->block_tokens & (kv->block_tokens - 1)) != 0)
        return mr_fail(err, MR_UNSUPPORTED, "block_tokens %u is not 16, 32, 64, 128 or 256",
                       kv->block_tokens);
    if (kv->block_stride % PACK || kv->head_stride % PACK || kv->token_stride % PACK ||
        !is_aligned(kv->keys) || !is_aligned(kv->values))
        return mr_fail(err, MR_UNSUPPORTED, "keys, values or a stride of kv is not aligned");
    return MR_OK;
}

#endif
