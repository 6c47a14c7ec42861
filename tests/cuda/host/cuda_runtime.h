/* cuda_runtime - the parts of CUDA C++ and of the CUDA runtime that the kernels of ops/cuda use,
 * for the host compiler. A launch runs its grid before it returns (grid.h). Device memory is host
 * memory. The names are CUDA's. */
#ifndef MR_TESTS_CUDA_RUNTIME_H
#define MR_TESTS_CUDA_RUNTIME_H

extern "C" {
#include "grid.h"
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#define __global__
#define __host__
#define __device__
#define __shared__       /* only for extern arrays: a kernel's dynamic shared memory */
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

inline const grid_index &threadIdx = grid_here.thread;
inline const grid_index &blockIdx = grid_here.block;
inline const grid_index &blockDim = grid_here.block_size;
inline const grid_index &gridDim = grid_here.grid_size;

using std::max;
using std::min;

/* ---- barriers, shuffles, votes, atomics ---- */

#define AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(AT)
{
    grid_barrier(file, line);
}

inline void __syncwarp(uint32_t mask = 0xffffffffu, AT)
{
    grid_exchange(mask, 0, file, line);
}

template <typename T>
T grid_read_lane(uint32_t mask, T value, unsigned lane, const char *file, int line)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most eight bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    const uint64_t *values = grid_exchange(mask, bits, file, line);
    grid_check_lane(mask, lane, file, line);
    std::memcpy(&value, &values[lane % GRID_WARP], sizeof value);
    return value;
}

inline unsigned grid_lane()
{
    return grid_here.thread.x % GRID_WARP;
}

template <typename T> T __shfl_sync(uint32_t mask, T value, int lane, AT)
{
    return grid_read_lane(mask, value, static_cast<unsigned>(lane) % GRID_WARP, file, line);
}

template <typename T> T __shfl_xor_sync(uint32_t mask, T value, int lanes, AT)
{
    return grid_read_lane(mask, value, grid_lane() ^ static_cast<unsigned>(lanes), file, line);
}

/* The lowest lanes keep their own value. */
template <typename T> T __shfl_up_sync(uint32_t mask, T value, unsigned lanes, AT)
{
    const unsigned lane = grid_lane();
    return grid_read_lane(mask, value, lane < lanes ? lane : lane - lanes, file, line);
}

inline unsigned __ballot_sync(uint32_t mask, int vote, AT)
{
    const uint64_t *votes = grid_exchange(mask, vote != 0, file, line);
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < GRID_WARP; lane++)
        if (mask >> lane & 1) ballot |= static_cast<unsigned>(votes[lane]) << lane;
    return ballot;
}

inline int __any_sync(uint32_t mask, int vote, AT)
{
    return __ballot_sync(mask, vote, file, line) != 0;
}

/* A thread runs alone until it waits, so a plain addition is atomic. */
template <typename T> T atomicAdd(T *address, T value)
{
    const T old = *address;
    *address += value;
    return old;
}

inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

inline float __uint_as_float(unsigned bits)
{
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/* Byte i of the result is the byte of low and high, 0 to 7, that bits 4 i to 4 i + 2 select. */
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const uint64_t bytes = low | uint64_t{high} << 32;
    unsigned out = 0;
    for (unsigned i = 0; i < 4; i++)
        out |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return out;
}

inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

inline int __clz(int bits)
{
    return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

/* ---- launches ---- */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1)
        : x(width), y(height), z(depth)
    {
    }
};

typedef void *cudaStream_t;
enum cudaError_t { cudaSuccess, cudaErrorLaunchFailure };

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

inline const char *&grid_last_error()
{
    static const char *text;
    return text;
}

inline const char *cudaGetErrorString(cudaError_t)
{
    return grid_last_error();
}

/* The kernels always exist. */
struct cudaFuncAttributes {
};
template <typename... P> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, void (*)(P...))
{
    return cudaSuccess;
}
inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                               A &&...arguments)
{
    struct call {
        void (*kernel)(P...);
        std::tuple<P...> arguments;
    } body = {kernel, std::tuple<P...>(arguments...)};
    grid_launch launch = {};
    launch.grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z};
    launch.block = {config->blockDim.x, config->blockDim.y, config->blockDim.z};
    launch.shared_bytes = config->dynamicSmemBytes;
    launch.context = &body;
    launch.kernel = [](void *context) {
        call *self = static_cast<call *>(context);
        std::apply(self->kernel, self->arguments);
    };
    grid_last_error() = grid_run(&launch);
    return grid_last_error() ? cudaErrorLaunchFailure : cudaSuccess;
}

#undef AT

#endif
