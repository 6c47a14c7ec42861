/* lanes_neon - the vectors of quant_body.h in four NEON registers each. Files compiled for I8MM
 * multiply unsigned codes directly. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_LANES_NEON_H
#define MR_OPS_CPU_KERNELS_QUANT_LANES_NEON_H

#include "ops/cpu_kernels/quant/format.h"

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8x16x4_t bytes;
typedef int32x4x4_t ints;
typedef float32x4x4_t floats;

/* Expands to a vector whose register i is the expression. */
#define EACH(type, expression)                                                                     \
    do {                                                                                           \
        type out;                                                                                  \
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) out.val[i] = (expression);             \
        return out;                                                                                \
    } while (0)

static inline bytes bytes_load(const unsigned char *p)
{
    EACH(bytes, vld1q_u8(p + 16 * i));
}
static inline void bytes_store(unsigned char *p, bytes a)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        vst1q_u8(p + 16 * i, a.val[i]);
}
static inline bytes bytes_or(bytes a, bytes b)
{
    EACH(bytes, vorrq_u8(a.val[i], b.val[i]));
}
static inline bytes bytes_low(bytes a)
{
    EACH(bytes, vandq_u8(a.val[i], vdupq_n_u8(15)));
}
static inline bytes bytes_high(bytes a)
{
    EACH(bytes, vshrq_n_u8(a.val[i], 4));
}
/* The bits `mask` of each byte from bit `from` on, moved to bit 4. */
static inline bytes bytes_bits(bytes a, const uint32_t from, const uint32_t mask)
{
    const int8x16_t up = vdupq_n_s8((int8_t)(4 - (int)from)); /* down, if negative */
    EACH(bytes, vandq_u8(vshlq_u8(a.val[i], up), vdupq_n_u8((uint8_t)(mask << 4))));
}
static inline bytes bytes_look_up(bytes codes, const void *values)
{
    EACH(bytes, vqtbl1q_u8(vld1q_u8(values), codes.val[i]));
}
#ifdef __ARM_FEATURE_MATMUL_INT8
static inline ints ints_start(int32_t minus, const struct mr_quant_shape shape)
{
    EACH(ints, vdupq_n_s32(minus * (1 << shape.shift)));
}
static inline int32x4_t dot(int32x4_t sum, uint8x16_t codes, int8x16_t x,
                            const struct mr_quant_shape shape)
{
    (void)shape;
    return vusdotq_s32(sum, codes, x);
}
#else
/* Codes with an offset of 128 are made signed (dot): their sums need no correction. */
static inline ints ints_start(int32_t minus, const struct mr_quant_shape shape)
{
    EACH(ints, vdupq_n_s32(shape.most > 127 ? 0 : minus * (1 << shape.shift)));
}
static inline int32x4_t dot(int32x4_t sum, uint8x16_t codes, int8x16_t x,
                            const struct mr_quant_shape shape)
{
    if (shape.most > 127) codes = veorq_u8(codes, vdupq_n_u8(128));
    return vdotq_s32(sum, vreinterpretq_s8_u8(codes), x);
}
#endif
static inline ints ints_end(ints sum, int32_t minus, const struct mr_quant_shape shape)
{
    (void)minus;
    (void)shape;
    return sum;
}
static inline ints ints_dot(ints sum, bytes codes, const void *x, const struct mr_quant_shape shape)
{
    int32_t word;
    memcpy(&word, x, sizeof word);
    const int8x16_t words = vreinterpretq_s8_s32(vdupq_n_s32(word));
    EACH(ints, dot(sum.val[i], codes.val[i], words, shape));
}
/* Stores 16 integers, each in a byte, and returns their sum. */
static inline int32_t ints_put(ints a, unsigned char *out)
{
    const int16x8_t low = vcombine_s16(vmovn_s32(a.val[0]), vmovn_s32(a.val[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(a.val[2]), vmovn_s32(a.val[3]));
    vst1q_s8((int8_t *)out, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    return vaddlvq_s16(low) + vaddlvq_s16(high);
}
static inline floats floats_set(float x)
{
    EACH(floats, vdupq_n_f32(x));
}
static inline floats floats_load(const void *p)
{
    EACH(floats, vld1q_f32((const float *)p + 4 * i));
}
static inline void floats_store(float *p, floats a)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, a.val[i]);
}
static inline floats floats_from(ints a)
{
    EACH(floats, vcvtq_f32_s32(a.val[i]));
}
static inline ints floats_round(floats a)
{
    EACH(ints, vcvtnq_s32_f32(a.val[i]));
}
static inline floats floats_add(floats a, floats b)
{
    EACH(floats, vaddq_f32(a.val[i], b.val[i]));
}
static inline floats floats_sub(floats a, floats b)
{
    EACH(floats, vsubq_f32(a.val[i], b.val[i]));
}
static inline floats floats_mul(floats a, floats b)
{
    EACH(floats, vmulq_f32(a.val[i], b.val[i]));
}
static inline floats floats_fma(floats a, floats b, floats c)
{
    EACH(floats, vfmaq_f32(c.val[i], a.val[i], b.val[i]));
}
static inline floats floats_halves(const unsigned char *p)
{
    EACH(floats, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i))));
}
static inline floats floats_bf16(const unsigned char *p)
{
    EACH(floats, vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i)), 16)));
}
static inline floats floats_unsigned(const void *p)
{
    const uint8x16_t x = vld1q_u8(p);
    const uint16x8_t halves[2] = {vmovl_u8(vget_low_u8(x)), vmovl_high_u8(x)};
    EACH(floats, vcvtq_f32_u32(i % 2 ? vmovl_high_u16(halves[i / 2])
                                     : vmovl_u16(vget_low_u16(halves[i / 2]))));
}
static inline floats floats_signed(const void *p)
{
    const int8x16_t x = vld1q_s8(p);
    const int16x8_t halves[2] = {vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x)};
    EACH(floats, vcvtq_f32_s32(i % 2 ? vmovl_high_s16(halves[i / 2])
                                     : vmovl_s16(vget_low_s16(halves[i / 2]))));
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
/* Returns the largest magnitude. NaN is larger than infinity, because magnitudes are compared by
 * their bits. */
static inline float floats_magnitude(floats a)
{
    uint32x4_t top = vdupq_n_u32(0);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        top = vmaxq_u32(top, vreinterpretq_u32_f32(vabsq_f32(a.val[i])));
    return vget_lane_f32(vreinterpret_f32_u32(vdup_n_u32(vmaxvq_u32(top))), 0);
}

#endif
