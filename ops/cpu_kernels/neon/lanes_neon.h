/* lanes_neon - vectors of 16 floats ("lanes") in four NEON registers, for the kernels in *_body.h.
 * Files compiled for bf16 instructions use them to multiply bf16 pairs. */
#ifndef MR_OPS_CPU_KERNELS_NEON_LANES_NEON_H
#define MR_OPS_CPU_KERNELS_NEON_LANES_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef float32x4x4_t lanes;
typedef uint32x4x4_t lanes_raw;

/* Expands to a vector whose register i is the expression. */
#define LANES_FOUR(type, expression)                                                               \
    do {                                                                                           \
        type out;                                                                                  \
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) out.val[i] = (expression);             \
        return out;                                                                                \
    } while (0)
#define LANES_EACH(expression) LANES_FOUR(lanes, expression)

static inline lanes lanes_set(float x)
{
    LANES_EACH(vdupq_n_f32(x));
}
static inline lanes lanes_load(const float *p)
{
    LANES_EACH(vld1q_f32(p + 4 * i));
}
static inline void lanes_store(float *p, lanes x)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, x.val[i]);
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
/* Rounds 4 floats to bf16, ties to even; NaN stays NaN. The instruction does the same. */
static inline uint16x4_t lanes_to_bf16(float32x4_t x)
{
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    return vreinterpret_u16_bf16(vcvt_bf16_f32(x));
#else
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), up, quiet), 16);
#endif
}
static inline void lanes_store_bf16(uint16_t *p, lanes x)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        vst1_u16(p + 4 * i, lanes_to_bf16(x.val[i]));
}
static inline void lanes_store_bf16_part(uint16_t *p, lanes x, uint32_t count)
{
    uint16_t whole[16];
    lanes_store_bf16(whole, x);
    memcpy(p, whole, count * sizeof *p);
}
static inline lanes lanes_add(lanes a, lanes b)
{
    LANES_EACH(vaddq_f32(a.val[i], b.val[i]));
}
static inline lanes lanes_sub(lanes a, lanes b)
{
    LANES_EACH(vsubq_f32(a.val[i], b.val[i]));
}
static inline lanes lanes_mul(lanes a, lanes b)
{
    LANES_EACH(vmulq_f32(a.val[i], b.val[i]));
}
static inline lanes lanes_div(lanes a, lanes b)
{
    LANES_EACH(vdivq_f32(a.val[i], b.val[i]));
}
static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    LANES_EACH(vfmaq_f32(c.val[i], a.val[i], b.val[i]));
}
/* In each lane the larger of a and b; b where either is NaN. */
static inline lanes lanes_max(lanes a, lanes b)
{
    LANES_EACH(vbslq_f32(vcgtq_f32(a.val[i], b.val[i]), a.val[i], b.val[i]));
}
static inline lanes lanes_min(lanes a, lanes b)
{
    LANES_EACH(vbslq_f32(vcltq_f32(a.val[i], b.val[i]), a.val[i], b.val[i]));
}
static inline lanes lanes_round(lanes a)
{
    LANES_EACH(vrndnq_f32(a.val[i]));
}
static inline lanes lanes_floor(lanes a)
{
    LANES_EACH(vrndmq_f32(a.val[i]));
}
/* Returns a - floor(a). */
static inline lanes lanes_fraction(lanes a)
{
    return lanes_sub(a, lanes_floor(a));
}
/* Returns 2^n for whole n; 0 for n = -127. */
static inline float32x4_t lanes_power(float32x4_t n)
{
    const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}
/* Returns a * 2^floor(n), for n at most 127; 0 where n is below -126. */
static inline lanes lanes_scale(lanes a, lanes n)
{
    n = lanes_max(lanes_set(-127.0f), lanes_floor(n));
    LANES_EACH(vmulq_f32(a.val[i], lanes_power(n.val[i])));
}
static inline uint32x4_t lanes_index(int i)
{
    const uint32x4_t first = {0, 1, 2, 3};
    return vaddq_u32(first, vdupq_n_u32(4u * (uint32_t)i));
}
/* Returns a in lanes [begin, end), and `fill` in the other lanes. */
static inline lanes lanes_keep(lanes a, uint32_t begin, uint32_t end, lanes fill)
{
    LANES_EACH(vbslq_f32(vandq_u32(vcgeq_u32(lanes_index(i), vdupq_n_u32(begin)),
                                   vcltq_u32(lanes_index(i), vdupq_n_u32(end))),
                         a.val[i], fill.val[i]));
}
/* Returns a, with 0 in lanes where a is NaN. */
static inline lanes lanes_number(lanes a)
{
    LANES_EACH(vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_f32(a.val[i]), vceqq_f32(a.val[i], a.val[i]))));
}
/* Bit i of the result is set when a[i] > b[i]. */
static inline uint32_t lanes_above(lanes a, lanes b)
{
    const uint32x4_t bits = {1, 2, 4, 8};
    uint32_t mask = 0;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        mask |= vaddvq_u32(vandq_u32(vcgtq_f32(a.val[i], b.val[i]), bits)) << 4 * i;
    return mask;
}
static inline lanes lanes_even(lanes a, lanes b)
{
    return (lanes){{vuzp1q_f32(a.val[0], a.val[1]), vuzp1q_f32(a.val[2], a.val[3]),
                    vuzp1q_f32(b.val[0], b.val[1]), vuzp1q_f32(b.val[2], b.val[3])}};
}
static inline lanes lanes_odd(lanes a, lanes b)
{
    return (lanes){{vuzp2q_f32(a.val[0], a.val[1]), vuzp2q_f32(a.val[2], a.val[3]),
                    vuzp2q_f32(b.val[0], b.val[1]), vuzp2q_f32(b.val[2], b.val[3])}};
}
static inline float lanes_sum(lanes a)
{
    return vaddvq_f32(vaddq_f32(vaddq_f32(a.val[0], a.val[2]), vaddq_f32(a.val[1], a.val[3])));
}
static inline float lanes_top(lanes a)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.val[0], a.val[2]), vmaxq_f32(a.val[1], a.val[3])));
}
/* Returns 16 signed bytes as floats. */
static inline lanes lanes_from_bytes(const void *p)
{
    const int8x16_t bytes = vld1q_s8((const int8_t *)p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (lanes){{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                    vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                    vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                    vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
static inline lanes_raw lanes_bits(lanes a)
{
    LANES_FOUR(lanes_raw, vreinterpretq_u32_f32(a.val[i]));
}
/* Returns the floats a and b as pairs of bf16, a first. Their low 16 bits must be zero. */
static inline lanes_raw lanes_pairs(lanes a, lanes b)
{
    LANES_FOUR(lanes_raw, vorrq_u32(vshrq_n_u32(vreinterpretq_u32_f32(a.val[i]), 16),
                                    vreinterpretq_u32_f32(b.val[i])));
}
static inline void lanes_raw_store(void *p, lanes_raw x)
{
    for (int i = 0; i < 4; i++)
        vst1q_u32((uint32_t *)p + 4 * i, x.val[i]);
}
static inline lanes_raw lanes_raw_load(const void *p)
{
    LANES_FOUR(lanes_raw, vld1q_u32((const uint32_t *)p + 4 * i));
}
static inline void lanes_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}
static inline lanes_raw lanes_raw_word(const void *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    LANES_FOUR(lanes_raw, vdupq_n_u32(word));
}
/* Returns the first bf16 of each pair as a float; the next function: the second. */
static inline float32x4_t lanes_first(uint32x4_t x)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(x, 16));
}
static inline float32x4_t lanes_second(uint32x4_t x)
{
    return vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xffff0000u)));
}
static inline float32x4_t lanes_dot_bf16(float32x4_t sum, uint32x4_t a, uint32x4_t b)
{
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    return vbfdotq_f32(sum, vreinterpretq_bf16_u32(a), vreinterpretq_bf16_u32(b));
#else
    sum = vfmaq_f32(sum, lanes_first(a), lanes_first(b));
    return vfmaq_f32(sum, lanes_second(a), lanes_second(b));
#endif
}
/* Returns sum + a * b in every lane. A lane of a and b is one float, or a pair of bf16 whose two
 * products are both added. */
static inline lanes lanes_dot(lanes sum, lanes_raw a, lanes_raw b, bool bf16)
{
    if (bf16) LANES_EACH(lanes_dot_bf16(sum.val[i], a.val[i], b.val[i]));
    LANES_EACH(
        vfmaq_f32(sum.val[i], vreinterpretq_f32_u32(a.val[i]), vreinterpretq_f32_u32(b.val[i])));
}

#endif
