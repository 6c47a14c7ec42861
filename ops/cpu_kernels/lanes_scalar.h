/* lanes_scalar - vectors of 16 floats ("lanes") in an array, for the kernels in *_body.h on any
 * machine. */
#ifndef MR_OPS_CPU_KERNELS_LANES_SCALAR_H
#define MR_OPS_CPU_KERNELS_LANES_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    float f[16];
} lanes;
typedef struct {
    uint32_t w[16];
} lanes_raw;

#define LANES_EACH(expression)                                                                     \
    do {                                                                                           \
        lanes out;                                                                                 \
        for (uint32_t i = 0; i < 16; i++)                                                          \
            out.f[i] = (expression);                                                               \
        return out;                                                                                \
    } while (0)

static inline float lanes_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline lanes lanes_set(float x)
{
    LANES_EACH(x);
}
static inline lanes lanes_load(const float *p)
{
    LANES_EACH(p[i]);
}
static inline lanes lanes_load_part(const float *p, uint32_t count)
{
    LANES_EACH(i < count ? p[i] : 0.0f);
}
static inline void lanes_store_part(float *p, lanes x, uint32_t count)
{
    memcpy(p, x.f, count * sizeof *p);
}
static inline void lanes_store(float *p, lanes x)
{
    lanes_store_part(p, x, 16);
}
static inline void lanes_store_bf16_part(uint16_t *p, lanes x, uint32_t count)
{
    uint16_t whole[16];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x.f[i], sizeof bits);
        uint32_t up = bits + 0x7fffu + (bits >> 16 & 1u);
        whole[i] = (uint16_t)((isnan(x.f[i]) ? bits | 0x400000u : up) >> 16);
    }
    memcpy(p, whole, count * sizeof *p);
}
static inline void lanes_store_bf16(uint16_t *p, lanes x)
{
    lanes_store_bf16_part(p, x, 16);
}
static inline lanes lanes_add(lanes a, lanes b)
{
    LANES_EACH(a.f[i] + b.f[i]);
}
static inline lanes lanes_sub(lanes a, lanes b)
{
    LANES_EACH(a.f[i] - b.f[i]);
}
static inline lanes lanes_mul(lanes a, lanes b)
{
    LANES_EACH(a.f[i] * b.f[i]);
}
static inline lanes lanes_div(lanes a, lanes b)
{
    LANES_EACH(a.f[i] / b.f[i]);
}
static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    LANES_EACH(a.f[i] * b.f[i] + c.f[i]);
}
/* In each lane the larger of a and b; b where either is NaN. */
static inline lanes lanes_max(lanes a, lanes b)
{
    LANES_EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]);
}
static inline lanes lanes_min(lanes a, lanes b)
{
    LANES_EACH(a.f[i] < b.f[i] ? a.f[i] : b.f[i]);
}
/* Adding and subtracting 1.5 * 2^23 rounds to a whole number; a float so large that this fails has
 * no fraction. */
static inline lanes lanes_round(lanes a)
{
    const float magic = 12582912.0f;
    LANES_EACH(fabsf(a.f[i]) < magic / 3.0f ? (a.f[i] + magic) - magic : a.f[i]);
}
static inline lanes lanes_floor(lanes a)
{
    const lanes near = lanes_round(a);
    LANES_EACH(near.f[i] > a.f[i] ? near.f[i] - 1.0f : near.f[i]);
}
/* Returns a - floor(a). */
static inline lanes lanes_fraction(lanes a)
{
    return lanes_sub(a, lanes_floor(a));
}
/* Returns a * 2^floor(n), for n at most 127; 0 where n is below -126. */
static inline lanes lanes_scale(lanes a, lanes n)
{
    const float magic = 12582912.0f; /* a whole n plus magic is a float with n in its low bits */
    lanes out;
    n = lanes_max(lanes_set(-127.0f), lanes_floor(n));
    for (uint32_t i = 0; i < 16; i++) {
        const float sum = n.f[i] + (magic + 127.0f);
        uint32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        out.f[i] = a.f[i] * lanes_from_bits(bits << 23);
    }
    return out;
}
/* Returns a in lanes [begin, end), and `fill` in the other lanes. */
static inline lanes lanes_keep(lanes a, uint32_t begin, uint32_t end, lanes fill)
{
    LANES_EACH(i >= begin && i < end ? a.f[i] : fill.f[i]);
}
/* Returns a, with 0 in lanes where a is NaN. */
static inline lanes lanes_number(lanes a)
{
    LANES_EACH(isnan(a.f[i]) ? 0.0f : a.f[i]);
}
/* Bit i of the result is set when a[i] > b[i]. */
static inline uint32_t lanes_above(lanes a, lanes b)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 16; i++)
        mask |= (uint32_t)(a.f[i] > b.f[i]) << i;
    return mask;
}
static inline lanes lanes_even(lanes a, lanes b)
{
    LANES_EACH(i < 8 ? a.f[2 * i] : b.f[2 * i - 16]);
}
static inline lanes lanes_odd(lanes a, lanes b)
{
    LANES_EACH(i < 8 ? a.f[2 * i + 1] : b.f[2 * i - 15]);
}
static inline float lanes_sum(lanes a)
{
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            a.f[i] += a.f[i + half];
    return a.f[0];
}
static inline float lanes_top(lanes a)
{
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            a.f[i] = a.f[i] > a.f[i + half] ? a.f[i] : a.f[i + half];
    return a.f[0];
}
static inline lanes_raw lanes_raw_load(const void *p)
{
    lanes_raw out;
    memcpy(&out, p, sizeof out);
    return out;
}
static inline void lanes_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}
static inline lanes_raw lanes_raw_word(const void *p)
{
    lanes_raw out;
    uint32_t word;
    memcpy(&word, p, sizeof word);
    for (uint32_t i = 0; i < 16; i++)
        out.w[i] = word;
    return out;
}
/* Returns 16 signed bytes as floats. */
static inline lanes lanes_from_bytes(const void *p)
{
    int8_t bytes[16];
    memcpy(bytes, p, sizeof bytes);
    LANES_EACH((float)bytes[i]);
}
static inline lanes_raw lanes_bits(lanes a)
{
    lanes_raw out;
    memcpy(&out, &a, sizeof out);
    return out;
}
/* Returns the floats a and b as pairs of bf16, a first. Their low 16 bits must be zero. */
static inline lanes_raw lanes_pairs(lanes a, lanes b)
{
    lanes_raw out = lanes_bits(a), second = lanes_bits(b);
    for (uint32_t i = 0; i < 16; i++)
        out.w[i] = out.w[i] >> 16 | second.w[i];
    return out;
}
static inline void lanes_raw_store(void *p, lanes_raw x)
{
    memcpy(p, &x, sizeof x);
}
/* Returns sum + a * b in every lane. A lane of a and b is one float, or a pair of bf16 whose two
 * products are both added. */
static inline lanes lanes_dot(lanes sum, lanes_raw a, lanes_raw b, bool bf16)
{
    for (uint32_t i = 0; i < 16; i++) {
        if (!bf16) {
            sum.f[i] += lanes_from_bits(a.w[i]) * lanes_from_bits(b.w[i]);
            continue;
        }
        sum.f[i] += lanes_from_bits(a.w[i] << 16) * lanes_from_bits(b.w[i] << 16);
        sum.f[i] += lanes_from_bits(a.w[i] & 0xffff0000u) * lanes_from_bits(b.w[i] & 0xffff0000u);
    }
    return sum;
}

#endif
