/* cuda_fp16 - CUDA's half-precision number for the host compiler: IEEE 754 binary16, rounded to
 * nearest even. */
#ifndef MR_TESTS_CUDA_FP16_H
#define MR_TESTS_CUDA_FP16_H

#include <cmath>
#include <cstdint>

struct __half {
    uint16_t bits;
};

inline __half __ushort_as_half(unsigned short bits)
{
    return {bits};
}

inline float __half2float(__half x)
{
    const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
    const float sign = x.bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

inline __half __float2half_rn(float x)
{
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    const float size = std::fabs(x);
    if (std::isnan(x)) return {0x7fff};
    if (size >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7c00)}; /* also infinity */
    int exponent = -14;                                                  /* of 0 */
    if (size > 0.0f) std::frexp(size, &exponent); /* size is in [2^(exponent - 1), 2^exponent) */
    const int step = exponent - 1 < -14 ? -24 : exponent - 11; /* log2 of the last place */
    /* The current rounding mode is to nearest even. A fraction that rounds up to the next power of
     * two carries into the exponent by the addition. */
    const int units = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
    return {static_cast<uint16_t>(sign | (units + (step + 24) * 1024))};
}

#endif
