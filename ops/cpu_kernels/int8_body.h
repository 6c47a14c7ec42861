/* int8_body - pack_int8, unpack_int8 and quantize of level.h: conversion of K and V to int8 and
 * back, on GCC vectors of 16 elements, which GCC compiles to the instruction set of the including
 * file.
 *
 * A token's scale is its largest magnitude divided by 127, rounded up to bf16, and at least the
 * smallest normal number, so that the inverse of the scale is finite. A number is multiplied by the
 * inverse and rounded to the nearest integer by adding INT8_ROUNDER, a float so large that its last
 * bit is worth 1: the integer is then in the low bits of the sum. An integer times a scale has 15
 * significant bits and is exact in fp32.
 *
 * GCC compiles a conversion to half or double the width to one instruction, and a conversion to a
 * quarter of the width to thirty. Widths therefore change in two steps. Everything is inlined into
 * four variants (K or V, bf16 or f32), in which the strides are constants. */
#ifndef MR_OPS_CPU_KERNELS_INT8_BODY_H
#define MR_OPS_CPU_KERNELS_INT8_BODY_H

#include "ops/cpu_kernels/level.h"

#include <string.h>

#define INT8_INLINE    static inline __attribute__((always_inline))
#define INT8_TOO_LARGE 0x7f000000u /* bit pattern of the float 2^127 */
#define INT8_SCALE_MIN 0x0080u     /* bit pattern of the bf16 number 2^-126 */
#define INT8_SCALE_NAN 0x7fc0u     /* bit pattern of a bf16 NaN */
/* 1.5 * 2^23; a float plus this holds the rounded float in its low bits. */
#define INT8_ROUNDER 12582912.0f

typedef float int8_floats __attribute__((vector_size(64)));
typedef uint32_t int8_words __attribute__((vector_size(64)));
typedef uint16_t int8_halves __attribute__((vector_size(32)));
typedef int32_t int8_integers __attribute__((vector_size(64)));
typedef int16_t int8_shorts __attribute__((vector_size(32)));
typedef int8_t int8_bytes __attribute__((vector_size(16)));

/* The layout of K or V in the KV pool. Its values are compile-time constants after inlining. */
struct int8_kind {
    bool bf16, keys;
    uint32_t width;  /* bf16 or f32 numbers in a row of 64 bytes */
    uint32_t share;  /* tokens (of V) or dimensions (of K) in a 4-byte word */
    uint32_t tokens; /* tokens in a group (struct mr_cpu_int8 of level.h) */
};

INT8_INLINE struct int8_kind int8_kind_of(bool bf16, bool keys)
{
    const uint32_t share = bf16 ? 2 : 1;
    return (struct int8_kind){bf16, keys, 16 * share, share, keys ? 16 : share};
}

/* Returns the token of a group that owns the number at index `place` of a row. */
INT8_INLINE uint32_t int8_token(struct int8_kind kind, uint32_t place)
{
    return kind.keys ? place / kind.share : place % kind.share;
}

/* Sets tops[k] to the largest magnitude at index k of all rows, as the bits of a float; the bits of
 * positive floats are ordered like the floats. */
INT8_INLINE void int8_tops_bf16(const struct mr_cpu_int8 *half, const unsigned char *rows,
                                uint32_t tops[32])
{
    uint16_t most[32] = {0}, row[32];
    for (uint32_t i = 0; i < half->row_count; i++, rows += half->row_bytes) {
        memcpy(row, rows, sizeof row);
        for (uint32_t k = 0; k < 32; k++) {
            uint16_t x = row[k] & 0x7fffu;
            most[k] = x > most[k] ? x : most[k];
        }
    }
    for (uint32_t k = 0; k < 32; k++)
        tops[k] = (uint32_t)most[k] << 16;
}

INT8_INLINE void int8_tops_f32(const struct mr_cpu_int8 *half, const unsigned char *rows,
                               uint32_t tops[32])
{
    uint32_t most[16] = {0}, row[16];
    for (uint32_t i = 0; i < half->row_count; i++, rows += half->row_bytes) {
        memcpy(row, rows, sizeof row);
        for (uint32_t k = 0; k < 16; k++) {
            uint32_t x = row[k] & 0x7fffffffu;
            most[k] = x > most[k] ? x : most[k];
        }
    }
    memcpy(tops, most, sizeof most);
}

INT8_INLINE uint32_t int8_most(uint32_t one, uint32_t two)
{
    return one > two ? one : two;
}

/* Sets tops[i] to the largest magnitude of token i of a group, as the bits of a float. */
INT8_INLINE void int8_tops(struct int8_kind kind, const struct mr_cpu_int8 *half, uint32_t group,
                           uint32_t *tops)
{
    uint32_t of_places[32];
    const unsigned char *rows = half->rows + group * half->group_bytes;
    if (kind.bf16)
        int8_tops_bf16(half, rows, of_places);
    else
        int8_tops_f32(half, rows, of_places);
    for (uint32_t i = 0; kind.keys && kind.bf16 && i < 16; i++)
        of_places[i] = int8_most(of_places[2 * i], of_places[2 * i + 1]);
    for (uint32_t step = kind.width / 2; !kind.keys && step >= kind.share; step /= 2)
        for (uint32_t i = 0; i < step; i++)
            of_places[i] = int8_most(of_places[i], of_places[i + step]);
    memcpy(tops, of_places, kind.tokens * sizeof *tops);
}

/* Sets the scales of `count` tokens from their largest magnitudes (tops), and factors to the
 * inverses of the scales. Returns false when a magnitude is 2^127 or more. */
INT8_INLINE bool int8_choose(const uint32_t *tops, uint32_t count, uint16_t *scales, float *factors)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        float top, scale;
        uint32_t bits;
        memcpy(&top, &tops[i], sizeof top);
        top /= 127.0f;
        memcpy(&bits, &top, sizeof bits);
        bits = (bits + 0xffffu) >> 16;
        bits = bits > INT8_SCALE_MIN ? bits : INT8_SCALE_MIN;
        scales[i] = (uint16_t)bits;
        bits <<= 16;
        memcpy(&scale, &bits, sizeof scale);
        factors[i] = 1.0f / scale;
        most = tops[i] > most ? tops[i] : most;
    }
    return most < INT8_TOO_LARGE;
}

/* Expands one factor for each token of a group into one factor for each number of a row. */
INT8_INLINE void int8_spread(struct int8_kind kind, const float *of_tokens, int8_floats *spread)
{
    float factors[32];
    for (uint32_t i = 0; i < kind.width; i++)
        factors[i] = of_tokens[int8_token(kind, i)];
    memcpy(spread, factors, kind.width * sizeof *factors);
}

INT8_INLINE void int8_pack_row(struct int8_kind kind, const unsigned char *row,
                               const int8_floats *factors, unsigned char *out)
{
    for (uint32_t i = 0; i < kind.share; i++) {
        int8_halves halves;
        int8_words words;
        int8_floats x;
        memcpy(&halves, row + i * sizeof halves, sizeof halves);
        memcpy(&words, row, sizeof words);
        if (kind.bf16) words = __builtin_convertvector(halves, int8_words) << 16;
        memcpy(&x, &words, sizeof x);
        x = x * factors[i] + INT8_ROUNDER;
        memcpy(&words, &x, sizeof words);
        halves = __builtin_convertvector(words, int8_halves);
        int8_bytes bytes = __builtin_convertvector(halves, int8_bytes);
        memcpy(out + i * sizeof bytes, &bytes, sizeof bytes);
    }
}

INT8_INLINE void int8_unpack_row(struct int8_kind kind, const unsigned char *in,
                                 const int8_floats *factors, unsigned char *row)
{
    for (uint32_t i = 0; i < kind.share; i++) {
        int8_bytes bytes;
        int8_words words;
        memcpy(&bytes, in + i * sizeof bytes, sizeof bytes);
        int8_shorts shorts = __builtin_convertvector(bytes, int8_shorts);
        int8_integers whole = __builtin_convertvector(shorts, int8_integers);
        int8_floats x = __builtin_convertvector(whole, int8_floats) * factors[i];
        memcpy(&words, &x, sizeof words);
        int8_halves halves =
            __builtin_convertvector((words + 0x7fffu + (words >> 16 & 1u)) >> 16, int8_halves);
        if (kind.bf16)
            memcpy(row + i * sizeof halves, &halves, sizeof halves);
        else
            memcpy(row, &words, sizeof words);
    }
}

/* In the packed rows of a group, sets the numbers of token `live` and of all later tokens to 0. */
INT8_INLINE void int8_clear(struct int8_kind kind, uint32_t live, unsigned char *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (int8_token(kind, (uint32_t)i % kind.width) >= live) out[i] = 0;
}

INT8_INLINE bool int8_pack_as(struct int8_kind kind, const struct mr_cpu_int8 *half,
                              unsigned char *out)
{
    const uint32_t count = half->group_count * kind.tokens;
    uint32_t tops[MR_BLOCK_TOKENS];
    uint16_t scales[MR_BLOCK_TOKENS];
    float factors[MR_BLOCK_TOKENS];
    int8_floats spread[2];
    for (uint32_t group = 0; group < half->group_count; group++)
        int8_tops(kind, half, group, tops + group * kind.tokens);
    for (uint32_t token = half->token_count; token < count; token++)
        tops[token] = 0;
    if (!int8_choose(tops, count, scales, factors)) return false;
    memcpy(out, scales, count * sizeof *scales);
    out += count * sizeof *scales;
    for (uint32_t group = 0; group < half->group_count; group++) {
        const unsigned char *row = half->rows + group * half->group_bytes;
        int8_spread(kind, factors + group * kind.tokens, spread);
        for (uint32_t i = 0; i < half->row_count; i++, row += half->row_bytes, out += kind.width)
            int8_pack_row(kind, row, spread, out);
    }
    if (half->token_count == count) return true;
    const size_t bytes = (size_t)half->row_count * kind.width;
    int8_clear(kind, half->token_count - (count - kind.tokens), out - bytes, bytes);
    return true;
}

INT8_INLINE void int8_unpack_as(struct int8_kind kind, const struct mr_cpu_int8 *half,
                                const unsigned char *in)
{
    const uint32_t count = half->group_count * kind.tokens;
    uint16_t scales[MR_BLOCK_TOKENS];
    float factors[MR_BLOCK_TOKENS];
    int8_floats spread[2];
    memcpy(scales, in, count * sizeof *scales);
    in += count * sizeof *scales;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)scales[i] << 16;
        memcpy(&factors[i], &bits, sizeof bits);
    }
    for (uint32_t group = 0; group < half->group_count; group++) {
        unsigned char *row = half->rows + group * half->group_bytes;
        int8_spread(kind, factors + group * kind.tokens, spread);
        for (uint32_t i = 0; i < half->row_count; i++, row += half->row_bytes, in += kind.width)
            int8_unpack_row(kind, in, spread, row);
    }
}

static bool int8_pack(const struct mr_cpu_int8 *half, unsigned char *out)
{
    if (half->bf16)
        return half->keys ? int8_pack_as(int8_kind_of(true, true), half, out)
                          : int8_pack_as(int8_kind_of(true, false), half, out);
    return half->keys ? int8_pack_as(int8_kind_of(false, true), half, out)
                      : int8_pack_as(int8_kind_of(false, false), half, out);
}

static uint16_t int8_quantize(const float *x, uint32_t count, int8_t *out)
{
    uint32_t tops[16] = {0}, row[16];
    uint16_t scale;
    float factor;
    for (uint32_t i = 0; i < count; i += 16) {
        memcpy(row, x + i, sizeof row);
        for (uint32_t k = 0; k < 16; k++)
            tops[k] = int8_most(tops[k], row[k] & 0x7fffffffu);
    }
    for (uint32_t k = 1; k < 16; k++)
        tops[0] = int8_most(tops[0], tops[k]);
    if (!int8_choose(tops, 1, &scale, &factor)) {
        memset(out, 0, count);
        return INT8_SCALE_NAN;
    }
    int8_floats factors = (int8_floats){0} + factor;
    for (uint32_t i = 0; i < count; i += 16)
        int8_pack_row(int8_kind_of(false, false), (const unsigned char *)(x + i), &factors,
                      (unsigned char *)out + i);
    return scale;
}

static void int8_unpack(const struct mr_cpu_int8 *half, const unsigned char *in)
{
    if (half->bf16 && half->keys)
        int8_unpack_as(int8_kind_of(true, true), half, in);
    else if (half->bf16)
        int8_unpack_as(int8_kind_of(true, false), half, in);
    else if (half->keys)
        int8_unpack_as(int8_kind_of(false, true), half, in);
    else
        int8_unpack_as(int8_kind_of(false, false), half, in);
}

#endif
