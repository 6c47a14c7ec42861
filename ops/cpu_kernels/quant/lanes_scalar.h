/* lanes_scalar - the vectors of quant_body.h in arrays, for any processor. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_LANES_SCALAR_H
#define MR_OPS_CPU_KERNELS_QUANT_LANES_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ops/cpu_kernels/quant/format.h"
#include "ops/numbers/dequant.h"

typedef struct {
    unsigned char at[64];
} bytes;
typedef struct {
    int32_t at[16];
} ints;
typedef struct {
    float at[16];
} floats;

#define EACH(type, count, expression)                                                              \
    do {                                                                                           \
        type out;                                                                                  \
        for (uint32_t i = 0; i < (count); i++)                                                     \
            out.at[i] = (expression);                                                              \
        return out;                                                                                \
    } while (0)

static inline bytes bytes_load(const unsigned char *p)
{
    bytes out;
    memcpy(out.at, p, sizeof out.at);
    return out;
}
static inline void bytes_store(unsigned char *p, bytes a)
{
    memcpy(p, a.at, sizeof a.at);
}
static inline bytes bytes_or(bytes a, bytes b)
{
    EACH(bytes, 64, a.at[i] | b.at[i]);
}
static inline bytes bytes_low(bytes a)
{
    EACH(bytes, 64, a.at[i] & 15u);
}
static inline bytes bytes_high(bytes a)
{
    EACH(bytes, 64, a.at[i] >> 4);
}
/* The bits `mask` of each byte from bit `from` on, moved to bit 4. */
static inline bytes bytes_bits(bytes a, uint32_t from, uint32_t mask)
{
    EACH(bytes, 64, (unsigned char)((((uint32_t)a.at[i] >> from) & mask) << 4));
}
static inline bytes bytes_look_up(bytes codes, const void *values)
{
    EACH(bytes, 64, ((const unsigned char *)values)[codes.at[i]]);
}
/* The next functions sum the products of codes, less their offset, and bytes of a row over some
 * words: start, dot for each word, end. minus: the negated sum of the row's bytes. */
static inline ints ints_start(int32_t minus, struct mr_quant_shape shape)
{
    EACH(ints, 16, minus * (1 << shape.shift));
}
static inline ints ints_dot(ints sum, bytes codes, const void *x, struct mr_quant_shape shape)
{
    signed char by[4];
    (void)shape;
    memcpy(by, x, sizeof by);
    EACH(ints, 16,
         sum.at[i] + codes.at[4 * i] * by[0] + codes.at[4 * i + 1] * by[1] +
             codes.at[4 * i + 2] * by[2] + codes.at[4 * i + 3] * by[3]);
}
static inline ints ints_end(ints sum, int32_t minus, struct mr_quant_shape shape)
{
    (void)minus;
    (void)shape;
    return sum;
}
/* Stores 16 integers, each in a byte, and returns their sum. */
static inline int32_t ints_put(ints a, unsigned char *out)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < 16; i++) {
        out[i] = (unsigned char)(signed char)a.at[i];
        sum += a.at[i];
    }
    return sum;
}
static inline floats floats_set(float x)
{
    EACH(floats, 16, x);
}
static inline floats floats_load(const void *p)
{
    floats out;
    memcpy(out.at, p, sizeof out.at);
    return out;
}
static inline void floats_store(float *p, floats a)
{
    memcpy(p, a.at, sizeof a.at);
}
static inline floats floats_from(ints a)
{
    EACH(floats, 16, (float)a.at[i]);
}
static inline ints floats_round(floats a)
{
    EACH(ints, 16, (int32_t)rintf(a.at[i]));
}
static inline floats floats_add(floats a, floats b)
{
    EACH(floats, 16, a.at[i] + b.at[i]);
}
static inline floats floats_sub(floats a, floats b)
{
    EACH(floats, 16, a.at[i] - b.at[i]);
}
static inline floats floats_mul(floats a, floats b)
{
    EACH(floats, 16, a.at[i] * b.at[i]);
}
/* a * b + c, rounded once, as the instruction does. */
static inline floats floats_fma(floats a, floats b, floats c)
{
    EACH(floats, 16, fmaf(a.at[i], b.at[i], c.at[i]));
}
static inline floats floats_halves(const void *p)
{
    floats out;
    mr_dequant(MR_STORAGE_F16, p, 16, out.at);
    return out;
}
static inline floats floats_bf16(const void *p)
{
    floats out;
    mr_dequant(MR_STORAGE_BF16, p, 16, out.at);
    return out;
}
static inline floats floats_unsigned(const void *p)
{
    EACH(floats, 16, (float)((const unsigned char *)p)[i]);
}
static inline floats floats_signed(const void *p)
{
    EACH(floats, 16, (float)((const signed char *)p)[i]);
}
/* Returns numbers [at, at + count) of a row, at most 16, followed by zeros. */
static inline floats floats_of(const void *x, size_t at, uint32_t count, bool bf16)
{
    floats out = {{0}};
    mr_dequant(bf16 ? MR_STORAGE_BF16 : MR_STORAGE_F32,
               (const unsigned char *)x + at * (bf16 ? 2u : 4u), count, out.at);
    return out;
}
/* Returns the largest magnitude; NaN is larger than infinity. */
static inline float floats_magnitude(floats a)
{
    float top = 0.0f;
    for (uint32_t i = 0; i < 16; i++) {
        const float x = fabsf(a.at[i]);
        if (isnan(x)) return x;
        top = x > top ? x : top;
    }
    return top;
}

#endif
