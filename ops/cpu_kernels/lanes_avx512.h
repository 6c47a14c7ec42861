/* lanes_avx512 - vectors of 16 floats ("lanes") in one AVX-512 register, for the kernels in
 * *_body.h. With LANES_BF16 they use the instructions for bf16. */
#ifndef MR_OPS_CPU_KERNELS_LANES_AVX512_H
#define MR_OPS_CPU_KERNELS_LANES_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef __m512 lanes;
typedef __m512i lanes_raw; /* one row of a panel (level.h): 16 words of 4 bytes */

static inline lanes lanes_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline __mmask16 lanes_mask(uint32_t begin, uint32_t end)
{
    return (__mmask16)(((1u << end) - 1u) & ~((1u << begin) - 1u));
}
static inline lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline lanes lanes_load_part(const float *p, uint32_t count)
{
    return _mm512_maskz_loadu_ps(lanes_mask(0, count), p);
}
static inline void lanes_store(float *p, lanes x)
{
    _mm512_storeu_ps(p, x);
}
static inline void lanes_store_part(float *p, lanes x, uint32_t count)
{
    _mm512_mask_storeu_ps(p, lanes_mask(0, count), x);
}
/* Rounds to bf16, ties to even; NaN stays NaN. */
static inline __m256i lanes_to_bf16(lanes x)
{
#ifdef LANES_BF16
    return (__m256i)_mm512_cvtneps_pbh(x);
#else
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, nan, quiet), 16));
#endif
}
static inline void lanes_store_bf16(uint16_t *p, lanes x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, lanes_to_bf16(x));
}
static inline void lanes_store_bf16_part(uint16_t *p, lanes x, uint32_t count)
{
    _mm256_mask_storeu_epi16(p, lanes_mask(0, count), lanes_to_bf16(x));
}
static inline lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}
static inline lanes lanes_sub(lanes a, lanes b)
{
    return _mm512_sub_ps(a, b);
}
static inline lanes lanes_mul(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}
static inline lanes lanes_div(lanes a, lanes b)
{
    return _mm512_div_ps(a, b);
}
static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* In each lane the larger of a and b; b where either is NaN. */
static inline lanes lanes_max(lanes a, lanes b)
{
    return _mm512_max_ps(a, b);
}
static inline lanes lanes_min(lanes a, lanes b)
{
    return _mm512_min_ps(a, b);
}
static inline lanes lanes_round(lanes a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* Returns a - floor(a). */
static inline lanes lanes_fraction(lanes a)
{
    return _mm512_reduce_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
/* Returns a * 2^floor(n), for n at most 127; 0 where n is below -126. */
static inline lanes lanes_scale(lanes a, lanes n)
{
    const __mmask16 normal = _mm512_cmp_ps_mask(n, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(normal, a, n);
}
/* Returns a in lanes [begin, end), and `fill` in the other lanes. */
static inline lanes lanes_keep(lanes a, uint32_t begin, uint32_t end, lanes fill)
{
    return _mm512_mask_mov_ps(fill, lanes_mask(begin, end), a);
}
/* Returns a, with 0 in lanes where a is NaN. */
static inline lanes lanes_number(lanes a)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a);
}
/* Bit i of the result is set when a[i] > b[i]. */
static inline uint32_t lanes_above(lanes a, lanes b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
static inline lanes lanes_even(lanes a, lanes b)
{
    const __m512i index =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, index, b);
}
static inline lanes lanes_odd(lanes a, lanes b)
{
    const __m512i index =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(a, index, b);
}
static inline float lanes_sum(lanes a)
{
    return _mm512_reduce_add_ps(a);
}
static inline float lanes_top(lanes a)
{
    return _mm512_reduce_max_ps(a);
}
static inline lanes_raw lanes_raw_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
static inline void lanes_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2); /* not _mm_prefetch: tests/tidy/prefetch.sh */
}
static inline lanes_raw lanes_raw_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}
/* Returns 16 signed bytes as floats. */
static inline lanes lanes_from_bytes(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
/* Returns the floats a and b as pairs of bf16, a first. Their low 16 bits must be zero. */
static inline lanes_raw lanes_pairs(lanes a, lanes b)
{
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(a), 16), _mm512_castps_si512(b));
}
static inline lanes_raw lanes_bits(lanes a)
{
    return _mm512_castps_si512(a);
}
static inline void lanes_raw_store(void *p, lanes_raw x)
{
    _mm512_storeu_si512(p, x);
}
/* Returns the first bf16 of each pair as a float; the next function: the second. */
static inline lanes lanes_first(lanes_raw x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
static inline lanes lanes_second(lanes_raw x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
/* Returns sum + a * b in every lane. A lane of a and b is one float, or with LANES_BF16 a pair of
 * bf16 whose two products are both added. */
static inline lanes lanes_dot(lanes sum, lanes_raw a, lanes_raw b, bool bf16)
{
#ifdef LANES_BF16
    if (bf16) return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
    (void)bf16; /* false: TILE_FLOATS */
#endif
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
}

#endif
