/* weight_codes - codes of weights (quantized_kernels.h) as the A fragments of a product, by
 * operations on two or four codes at once. The codes of 4 bits become numbers by an OR with a
 * number whose last place is 1, and a subtraction that is exact; MR_CUDA_FP4 by a table of bytes.
 * Every result is exact. */
#ifndef MR_OPS_CUDA_WEIGHT_CODES_CUH
#define MR_OPS_CUDA_WEIGHT_CODES_CUH

#include "ops/cuda/tensor_core.cuh"

extern "C" {
#include "ops/cuda/quantized_kernels.h"
}

/* Two equal numbers whose last place is 1: 128 and 1024. */
template <typename T> constexpr unsigned unit_pair = 0x43004300u;
template <> constexpr unsigned unit_pair<__half> = 0x64006400u;

/* The codes of a lane of 16 inputs: words[0], and words[1] with 8 bits. */
template <typename T, enum mr_cuda_code CODE> struct codes;

template <typename T> struct codes<T, MR_CUDA_U4> {
    static __device__ inline void read(const unsigned *words, unsigned zero, unsigned a[4])
    {
        const unsigned zeros = unit_pair<T> + zero * 0x00010001u;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            a[i] = subtract_pairs<T>((words[0] >> 4 * i & 0x000f000fu) | unit_pair<T>, zeros);
    }
};

/* The bytes of the numbers 0, 1, 2, 3, 4, 6, 8 and 12: the upper ones, then the lower ones. */
template <typename T> struct fp4_bytes {
    static constexpr unsigned upper[2] = {0x40403f00u, 0x41414040u};
    static constexpr unsigned lower[2] = {0x40008000u, 0x4000c080u};
};
template <> struct fp4_bytes<__half> {
    static constexpr unsigned upper[2] = {0x42403c00u, 0x4a484644u};
    static constexpr unsigned lower[2] = {0, 0};
};

template <typename T> struct codes<T, MR_CUDA_FP4> {
    static __device__ inline void read(const unsigned *words, unsigned, unsigned a[4])
    {
        using table = fp4_bytes<T>;
        const unsigned first = words[0] & 0x7777u, second = words[0] >> 16 & 0x7777u;
        /* Byte i: of the first or second number of pair i. */
        const unsigned first_lower = __byte_perm(table::lower[0], table::lower[1], first);
        const unsigned first_upper = __byte_perm(table::upper[0], table::upper[1], first);
        const unsigned second_lower = __byte_perm(table::lower[0], table::lower[1], second);
        const unsigned second_upper = __byte_perm(table::upper[0], table::upper[1], second);
        const unsigned firsts[2] = {__byte_perm(first_lower, first_upper, 0x5140),
                                    __byte_perm(first_lower, first_upper, 0x7362)};
        const unsigned seconds[2] = {__byte_perm(second_lower, second_upper, 0x5140),
                                     __byte_perm(second_lower, second_upper, 0x7362)};
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            a[i] = __byte_perm(firsts[i / 2], seconds[i / 2], i % 2 ? 0x7632 : 0x5410) |
                   (words[0] >> 4 * i & 0x00080008u) << 12;
    }
};

/* The mantissa of bf16 has no room for 8 bits: the codes become floats, whose upper halves are the
 * numbers. */
template <> struct codes<__nv_bfloat16, MR_CUDA_U8> {
    static __device__ inline unsigned number(unsigned word, unsigned byte, unsigned zero)
    {
        const unsigned bits = __byte_perm(word, 0x4b000000u, 0x7440 | byte); /* 2^23 + code */
        return __float_as_uint(__uint_as_float(bits) - (8388608.0f + static_cast<float>(zero)));
    }
    static __device__ inline void read(const unsigned *words, unsigned zero, unsigned a[4])
    {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            a[i] = __byte_perm(number(words[i / 2], i % 2 * 2, zero),
                               number(words[i / 2], i % 2 * 2 + 1, zero), 0x7632);
    }
};
template <> struct codes<__half, MR_CUDA_U8> {
    static __device__ inline void read(const unsigned *words, unsigned zero, unsigned a[4])
    {
        const unsigned zeros = unit_pair<__half> + zero * 0x00010001u;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            a[i] = subtract_pairs<__half>(
                __byte_perm(words[i / 2], unit_pair<__half>, i % 2 ? 0x7372 : 0x7170), zeros);
    }
};

/* ---- scales ---- */

/* The float of a half in the lower 16 bits. */
__device__ inline float half_float(unsigned bits)
{
    return to_float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/* The float of a stored scale or low. */
template <enum mr_cuda_code CODE> __device__ inline float scale_float(unsigned bits)
{
    return CODE == MR_CUDA_FP4 ? __uint_as_float(bits << 16) : half_float(bits);
}

#endif
