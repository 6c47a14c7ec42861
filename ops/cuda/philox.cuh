/* philox - the random number of a draw on the device: the same function of (seed, position) as
 * mr_sampler_uniform (ops/sampling/sampler.h), Philox-4x32-10. */
#ifndef MR_OPS_CUDA_PHILOX_CUH
#define MR_OPS_CUDA_PHILOX_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Returns a uniform random number in [0, 1) with 24 random bits. */
__device__ inline float philox_uniform(uint64_t seed, uint32_t position)
{
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    uint32_t a = position, b = 0, c = 0, d = 0;
    for (int round = 0; round < 10; round++) {
        const uint64_t first = UINT64_C(0xd2511f53) * a, second = UINT64_C(0xcd9e8d57) * c;
        a = static_cast<uint32_t>(second >> 32) ^ b ^ k0;
        c = static_cast<uint32_t>(first >> 32) ^ d ^ k1;
        b = static_cast<uint32_t>(second);
        d = static_cast<uint32_t>(first);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return static_cast<float>(a >> 8) / 16777216.0f;
}

#endif
