/* lanes_avx2 - vectors of 16 floats ("lanes") in two AVX2 registers, for the kernels in
 * *_body.h. */
#ifndef MR_OPS_CPU_KERNELS_LANES_AVX2_H
#define MR_OPS_CPU_KERNELS_LANES_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    __m256 lo, hi;
} lanes;
typedef struct {
    __m256i lo, hi;
} lanes_raw;

#define LANES_BOTH(expression_lo, expression_hi)                                                   \
    (lanes)                                                                                        \
    {                                                                                              \
        (expression_lo), (expression_hi)                                                           \
    }

static inline lanes lanes_set(float x)
{
    return LANES_BOTH(_mm256_set1_ps(x), _mm256_set1_ps(x));
}
static inline lanes lanes_load(const float *p)
{
    return LANES_BOTH(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
static inline void lanes_store(float *p, lanes x)
{
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}
static inline lanes lanes_load_part(const float *p, uint32_t count)
{
    float whole[16] = {0};
    memcpy(whole, p, count * sizeof *p);
    return lanes_load(whole);
}
static inline void lanes_store_part(float *p, lanes x, uint32_t count)
{
    float whole[16];
    lanes_store(whole, x);
    memcpy(p, whole, count * sizeof *p);
}
/* Rounds 8 floats to bf16, ties to even; NaN stays NaN. */
static inline __m256i lanes_to_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
}
static inline void lanes_store_bf16(uint16_t *p, lanes x)
{
    __m256i packed = _mm256_packus_epi32(lanes_to_bf16(x.lo), lanes_to_bf16(x.hi));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
static inline void lanes_store_bf16_part(uint16_t *p, lanes x, uint32_t count)
{
    uint16_t whole[16];
    lanes_store_bf16(whole, x);
    memcpy(p, whole, count * sizeof *p);
}
static inline lanes lanes_add(lanes a, lanes b)
{
    return LANES_BOTH(_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi));
}
static inline lanes lanes_sub(lanes a, lanes b)
{
    return LANES_BOTH(_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi));
}
static inline lanes lanes_mul(lanes a, lanes b)
{
    return LANES_BOTH(_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi));
}
static inline lanes lanes_div(lanes a, lanes b)
{
    return LANES_BOTH(_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi));
}
static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return LANES_BOTH(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}
/* In each lane the larger of a and b; b where either is NaN. */
static inline lanes lanes_max(lanes a, lanes b)
{
    return LANES_BOTH(_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi));
}
static inline lanes lanes_min(lanes a, lanes b)
{
    return LANES_BOTH(_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi));
}
static inline lanes lanes_round(lanes a)
{
    return LANES_BOTH(_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                      _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline lanes lanes_floor(lanes a)
{
    return LANES_BOTH(_mm256_floor_ps(a.lo), _mm256_floor_ps(a.hi));
}
/* Returns a - floor(a). */
static inline lanes lanes_fraction(lanes a)
{
    return lanes_sub(a, lanes_floor(a));
}
/* Returns 2^n for whole n; 0 for n = -127. */
static inline __m256 lanes_power(__m256 n)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
/* Returns a * 2^floor(n), for n at most 127; 0 where n is below -126. */
static inline lanes lanes_scale(lanes a, lanes n)
{
    n = lanes_max(lanes_set(-127.0f), lanes_floor(n));
    return LANES_BOTH(_mm256_mul_ps(a.lo, lanes_power(n.lo)),
                      _mm256_mul_ps(a.hi, lanes_power(n.hi)));
}
/* Returns a in lanes [begin, end), and `fill` in the other lanes. */
static inline lanes lanes_keep(lanes a, uint32_t begin, uint32_t end, lanes fill)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i first = _mm256_set1_epi32((int)begin - 1), last = _mm256_set1_epi32((int)end);
    __m256i high = _mm256_add_epi32(index, _mm256_set1_epi32(8));
    __m256i in_lo =
        _mm256_and_si256(_mm256_cmpgt_epi32(index, first), _mm256_cmpgt_epi32(last, index));
    __m256i in_hi =
        _mm256_and_si256(_mm256_cmpgt_epi32(high, first), _mm256_cmpgt_epi32(last, high));
    return LANES_BOTH(_mm256_blendv_ps(fill.lo, a.lo, _mm256_castsi256_ps(in_lo)),
                      _mm256_blendv_ps(fill.hi, a.hi, _mm256_castsi256_ps(in_hi)));
}
/* Returns a, with 0 in lanes where a is NaN. */
static inline lanes lanes_number(lanes a)
{
    return LANES_BOTH(_mm256_and_ps(a.lo, _mm256_cmp_ps(a.lo, a.lo, _CMP_ORD_Q)),
                      _mm256_and_ps(a.hi, _mm256_cmp_ps(a.hi, a.hi, _CMP_ORD_Q)));
}
/* Bit i of the result is set when a[i] > b[i]. */
static inline uint32_t lanes_above(lanes a, lanes b)
{
    int lo = _mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ));
    int hi = _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ));
    return (uint32_t)lo | (uint32_t)hi << 8;
}
static inline __m256 lanes_order(__m256 x)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}
static inline lanes lanes_even(lanes a, lanes b)
{
    return LANES_BOTH(lanes_order(_mm256_shuffle_ps(a.lo, a.hi, 0x88)),
                      lanes_order(_mm256_shuffle_ps(b.lo, b.hi, 0x88)));
}
static inline lanes lanes_odd(lanes a, lanes b)
{
    return LANES_BOTH(lanes_order(_mm256_shuffle_ps(a.lo, a.hi, 0xdd)),
                      lanes_order(_mm256_shuffle_ps(b.lo, b.hi, 0xdd)));
}
static inline float lanes_sum(lanes a)
{
    __m256 eight = _mm256_add_ps(a.lo, a.hi);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float lanes_top(lanes a)
{
    __m256 eight = _mm256_max_ps(a.lo, a.hi);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline lanes_raw lanes_raw_load(const void *p)
{
    const __m256i *q = p;
    return (lanes_raw){_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
static inline void lanes_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2); /* not _mm_prefetch: tests/tidy/prefetch.sh */
}
static inline lanes_raw lanes_raw_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return (lanes_raw){_mm256_set1_epi32(word), _mm256_set1_epi32(word)};
}
/* Returns 16 signed bytes as floats. */
static inline lanes lanes_from_bytes(const void *p)
{
    const __m128i bytes = _mm_loadu_si128(p);
    return LANES_BOTH(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                      _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
}
static inline __m256i lanes_pair(__m256 a, __m256 b)
{
    return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(a), 16), _mm256_castps_si256(b));
}
/* Returns the floats a and b as pairs of bf16, a first. Their low 16 bits must be zero. */
static inline lanes_raw lanes_pairs(lanes a, lanes b)
{
    return (lanes_raw){lanes_pair(a.lo, b.lo), lanes_pair(a.hi, b.hi)};
}
static inline lanes_raw lanes_bits(lanes a)
{
    return (lanes_raw){_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
static inline void lanes_raw_store(void *p, lanes_raw x)
{
    _mm256_storeu_si256(p, x.lo);
    _mm256_storeu_si256((__m256i *)p + 1, x.hi);
}
/* Returns the first bf16 of each pair as a float; the next function: the second. */
static inline lanes lanes_first(lanes_raw x)
{
    return LANES_BOTH(_mm256_castsi256_ps(_mm256_slli_epi32(x.lo, 16)),
                      _mm256_castsi256_ps(_mm256_slli_epi32(x.hi, 16)));
}
static inline lanes lanes_second(lanes_raw x)
{
    const __m256i mask = _mm256_set1_epi32((int)0xffff0000u);
    return LANES_BOTH(_mm256_castsi256_ps(_mm256_and_si256(x.lo, mask)),
                      _mm256_castsi256_ps(_mm256_and_si256(x.hi, mask)));
}
/* Returns sum + a * b in every lane. A lane of a and b is one float, or a pair of bf16 whose two
 * products are both added, the first one first. */
static inline lanes lanes_dot(lanes sum, lanes_raw a, lanes_raw b, bool bf16)
{
    if (bf16) {
        sum = lanes_fma(lanes_first(a), lanes_first(b), sum);
        return lanes_fma(lanes_second(a), lanes_second(b), sum);
    }
    sum.lo = _mm256_fmadd_ps(_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(b.lo), sum.lo);
    sum.hi = _mm256_fmadd_ps(_mm256_castsi256_ps(a.hi), _mm256_castsi256_ps(b.hi), sum.hi);
    return sum;
}

#endif
