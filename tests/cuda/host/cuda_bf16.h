/* cuda_bf16 - CUDA's bfloat16 for the host compiler: the upper half of a float, rounded to nearest
 * even. */
#ifndef MR_TESTS_CUDA_BF16_H
#define MR_TESTS_CUDA_BF16_H

#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
    uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x)
{
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if (std::isnan(x)) return {0x7fff};
    bits += 0x7fff + (bits >> 16 & 1);
    return {static_cast<uint16_t>(bits >> 16)};
}

#endif
