/* lanes_avx2 - the vectors of quant_body.h in pairs of AVX2 registers.
 *
 * The instruction that multiplies unsigned with signed bytes adds two products in int16 and
 * saturates. With codes of at most 31 the sum of four such numbers does not overflow, so they are
 * widened to int32 only at the end of half a group. With codes of at most 127 a single such number
 * does not overflow. Larger codes are made signed, and their sign is moved to the other factor, so
 * that their sums need no correction for the offset. With LANES_VNNI one instruction adds four
 * products to an int32. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_LANES_AVX2_H
#define MR_OPS_CPU_KERNELS_QUANT_LANES_AVX2_H

#include "ops/cpu_kernels/quant/format.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    __m256i a, b;
} bytes;
typedef bytes ints;
typedef struct {
    __m256 a, b;
} floats;

static inline bytes bytes_load(const unsigned char *p)
{
    return (bytes){_mm256_loadu_si256((const __m256i *)(const void *)p),
                   _mm256_loadu_si256((const __m256i *)(const void *)(p + 32))};
}
static inline void bytes_store(unsigned char *p, bytes a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, a.a);
    _mm256_storeu_si256((__m256i *)(void *)(p + 32), a.b);
}
static inline bytes bytes_or(bytes x, bytes y)
{
    return (bytes){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
static inline bytes bytes_and(bytes x, uint32_t mask)
{
    const __m256i m = _mm256_set1_epi8((char)mask);
    return (bytes){_mm256_and_si256(x.a, m), _mm256_and_si256(x.b, m)};
}
static inline bytes bytes_low(bytes x)
{
    return bytes_and(x, 15);
}
static inline bytes bytes_high(bytes x)
{
    return bytes_and((bytes){_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)}, 15);
}
/* The bits `mask` of each byte from bit `from` on, moved to bit 4. */
static inline bytes bytes_bits(bytes x, const uint32_t from, const uint32_t mask)
{
    const int down = (int)from - 4, up = 4 - (int)from;
    if (down >= 0)
        x = (bytes){_mm256_srli_epi16(x.a, down), _mm256_srli_epi16(x.b, down)};
    else
        x = (bytes){_mm256_slli_epi16(x.a, up), _mm256_slli_epi16(x.b, up)};
    return bytes_and(x, mask << 4);
}
static inline bytes bytes_look_up(bytes codes, const void *values)
{
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(values));
    return (bytes){_mm256_shuffle_epi8(table, codes.a), _mm256_shuffle_epi8(table, codes.b)};
}
static inline ints ints_set(int32_t x)
{
    return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
#ifdef LANES_VNNI
static inline ints ints_start(int32_t minus, const struct mr_quant_shape shape)
{
    return ints_set(minus * (1 << shape.shift));
}
static inline __m256i dot_half(__m256i sum, __m256i codes, __m256i x,
                               const struct mr_quant_shape shape)
{
    (void)shape;
    return _mm256_dpbusd_avx_epi32(sum, codes, x);
}
static inline ints ints_end(ints sum, int32_t minus, const struct mr_quant_shape shape)
{
    (void)minus;
    (void)shape;
    return sum;
}
#else
static inline ints ints_start(int32_t minus, const struct mr_quant_shape shape)
{
    return ints_set(shape.most <= 31 || shape.most > 127 ? 0 : minus * (1 << shape.shift));
}
static inline __m256i dot_half(__m256i sum, __m256i codes, __m256i x,
                               const struct mr_quant_shape shape)
{
    if (shape.most > 127) {
        const __m256i weights = _mm256_xor_si256(codes, _mm256_set1_epi8((char)128));
        x = _mm256_sign_epi8(x, weights);
        codes = _mm256_abs_epi8(weights);
    }
    const __m256i pairs = _mm256_maddubs_epi16(codes, x);
    if (shape.most <= 31) return _mm256_add_epi16(sum, pairs);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline ints ints_end(ints sum, int32_t minus, const struct mr_quant_shape shape)
{
    if (shape.most > 31) return sum;
    const __m256i ones = _mm256_set1_epi16(1);
    const ints whole = {_mm256_madd_epi16(sum.a, ones), _mm256_madd_epi16(sum.b, ones)};
    if (shape.shift == 0) return whole;
    const ints start = ints_set(minus * (1 << shape.shift));
    return (ints){_mm256_add_epi32(whole.a, start.a), _mm256_add_epi32(whole.b, start.b)};
}
#endif
static inline ints ints_dot(ints sum, bytes codes, const void *x, const struct mr_quant_shape shape)
{
    int32_t word;
    memcpy(&word, x, sizeof word);
    const __m256i words = _mm256_set1_epi32(word);
    return (ints){dot_half(sum.a, codes.a, words, shape), dot_half(sum.b, codes.b, words, shape)};
}
static inline int32_t sum_of(__m256i x)
{
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1));
    return _mm_cvtsi128_si32(y);
}
/* Stores 16 integers, each in a byte, and returns their sum. */
static inline int32_t ints_put(ints x, unsigned char *out)
{
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    const __m128i all =
        _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128((__m128i *)(void *)out, all);
    return sum_of(_mm256_add_epi32(x.a, x.b));
}
static inline floats floats_set(float x)
{
    return (floats){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline floats floats_load(const void *p)
{
    return (floats){_mm256_loadu_ps(p), _mm256_loadu_ps((const float *)p + 8)};
}
static inline void floats_store(float *p, floats x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline floats floats_from(ints x)
{
    return (floats){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
static inline ints floats_round(floats x)
{
    return (ints){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
static inline floats floats_add(floats x, floats y)
{
    return (floats){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline floats floats_sub(floats x, floats y)
{
    return (floats){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline floats floats_mul(floats x, floats y)
{
    return (floats){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline floats floats_fma(floats x, floats y, floats z)
{
    return (floats){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline __m128i load_half(const void *p)
{
    return _mm_loadu_si128(p);
}
static inline floats floats_halves(const unsigned char *p)
{
    return (floats){_mm256_cvtph_ps(load_half(p)), _mm256_cvtph_ps(load_half(p + 16))};
}
static inline __m256 widen_bf16(__m128i halves)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
static inline floats floats_bf16(const unsigned char *p)
{
    return (floats){widen_bf16(load_half(p)), widen_bf16(load_half(p + 16))};
}
static inline floats floats_unsigned(const void *p)
{
    const __m128i x = load_half(p);
    return floats_from((ints){_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))});
}
static inline floats floats_signed(const void *p)
{
    const __m128i x = load_half(p);
    return floats_from((ints){_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))});
}
/* Returns numbers [at, at + count) of a row, at most 16, followed by zeros. */
static inline floats floats_of(const void *x, size_t at, uint32_t count, bool bf16)
{
    unsigned char part[64] = {0};
    const size_t bytes_each = bf16 ? 2 : 4;
    const unsigned char *from = (const unsigned char *)x + at * bytes_each;
    if (count < 16) {
        memcpy(part, from, count * bytes_each);
        from = part;
    }
    return bf16 ? floats_bf16(from) : floats_load(from);
}
/* Returns the largest magnitude; NaN is larger than infinity. */
static inline float floats_magnitude(floats x)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    const __m256i all = _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(x.a), mask),
                                         _mm256_and_si256(_mm256_castps_si256(x.b), mask));
    __m128i top = _mm_max_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
    top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(top));
}

#endif
