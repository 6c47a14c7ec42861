/* lanes_avx512 - the vectors of quant_body.h in AVX-512 registers. With LANES_VNNI one instruction
 * multiplies four unsigned bytes with four signed ones and adds the products to an int32, exactly.
 * Without LANES_VNNI the sums are as in lanes_avx2.h. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_LANES_AVX512_H
#define MR_OPS_CPU_KERNELS_QUANT_LANES_AVX512_H

#include "ops/cpu_kernels/quant/format.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QUANT_PACK mr_quant_pack_avx512f

typedef __m512i bytes;
typedef __m512i ints;
typedef __m512 floats;

static inline bytes bytes_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
static inline void bytes_store(unsigned char *p, bytes a)
{
    _mm512_storeu_si512(p, a);
}
static inline bytes bytes_or(bytes a, bytes b)
{
    return _mm512_or_si512(a, b);
}
static inline bytes bytes_low(bytes a)
{
    return _mm512_and_si512(a, _mm512_set1_epi8(15));
}
static inline bytes bytes_high(bytes a)
{
    return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15));
}
/* The bits `mask` of each byte from bit `from` on, moved to bit 4. */
static inline bytes bytes_bits(bytes a, const uint32_t from, const uint32_t mask)
{
    const bytes moved = from >= 4 ? _mm512_srl_epi16(a, _mm_cvtsi32_si128((int)from - 4))
                                  : _mm512_sll_epi16(a, _mm_cvtsi32_si128(4 - (int)from));
    return _mm512_and_si512(moved, _mm512_set1_epi8((char)(mask << 4)));
}
static inline bytes bytes_look_up(bytes codes, const void *values)
{
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(values));
    return _mm512_shuffle_epi8(table, codes);
}
static inline __m512i words_of(const void *x)
{
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm512_set1_epi32(word);
}
#ifdef LANES_VNNI
static inline ints ints_start(int32_t minus, const struct mr_quant_shape shape)
{
    return _mm512_slli_epi32(_mm512_set1_epi32(minus), shape.shift);
}
static inline ints ints_dot(ints sum, bytes codes, const void *x, const struct mr_quant_shape shape)
{
    (void)shape;
    return _mm512_dpbusd_epi32(sum, codes, words_of(x));
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
    if (shape.most <= 31 || shape.most > 127) return _mm512_setzero_si512();
    return _mm512_slli_epi32(_mm512_set1_epi32(minus), shape.shift);
}
static inline ints ints_dot(ints sum, bytes codes, const void *x, const struct mr_quant_shape shape)
{
    __m512i words = words_of(x);
    if (shape.most > 127) {
        const __m512i weights = _mm512_xor_si512(codes, _mm512_set1_epi8((char)128));
        const __mmask64 negative = _mm512_movepi8_mask(weights);
        words = _mm512_mask_sub_epi8(words, negative, _mm512_setzero_si512(), words);
        codes = _mm512_abs_epi8(weights);
    }
    const __m512i pairs = _mm512_maddubs_epi16(codes, words);
    if (shape.most <= 31) return _mm512_add_epi16(sum, pairs);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
static inline ints ints_end(ints sum, int32_t minus, const struct mr_quant_shape shape)
{
    if (shape.most > 31) return sum;
    const __m512i whole = _mm512_madd_epi16(sum, _mm512_set1_epi16(1));
    if (shape.shift == 0) return whole;
    return _mm512_add_epi32(whole, _mm512_slli_epi32(_mm512_set1_epi32(minus), shape.shift));
}
#endif
static inline ints ints_load(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}
static inline ints ints_add(ints a, ints b)
{
    return _mm512_add_epi32(a, b);
}
/* Stores 16 integers, each in a byte, and returns their sum. */
static inline int32_t ints_put(ints a, unsigned char *out)
{
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtsepi32_epi8(a));
    return _mm512_reduce_add_epi32(a);
}
static inline floats floats_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline floats floats_load(const void *p)
{
    return _mm512_loadu_ps(p);
}
static inline void floats_store(float *p, floats a)
{
    _mm512_storeu_ps(p, a);
}
static inline floats floats_from(ints a)
{
    return _mm512_cvtepi32_ps(a);
}
static inline ints floats_round(floats a)
{
    return _mm512_cvtps_epi32(a);
}
static inline floats floats_add(floats a, floats b)
{
    return _mm512_add_ps(a, b);
}
static inline floats floats_sub(floats a, floats b)
{
    return _mm512_sub_ps(a, b);
}
static inline floats floats_mul(floats a, floats b)
{
    return _mm512_mul_ps(a, b);
}
static inline floats floats_fma(floats a, floats b, floats c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline floats floats_halves(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline floats floats_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
static inline floats floats_unsigned(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p)));
}
static inline floats floats_signed(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
/* Returns numbers [at, at + count) of a row, at most 16, followed by zeros. */
static inline floats floats_of(const void *x, size_t at, uint32_t count, bool bf16)
{
    const __mmask16 mask = (__mmask16)((1u << count) - 1u);
    if (!bf16) return _mm512_maskz_loadu_ps(mask, (const float *)x + at);
    const __m256i halves = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)x + at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
/* Returns the largest magnitude; NaN is larger than infinity. */
static inline float floats_magnitude(floats a)
{
    const __m512i mask = _mm512_set1_epi32(0x7fffffff);
    const int32_t bits = _mm512_reduce_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), mask));
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
