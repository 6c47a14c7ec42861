/* numbers - random floats and bf16 for the kernel tests. */
#ifndef MR_TESTS_OPS_NUMBERS_H
#define MR_TESTS_OPS_NUMBERS_H

#include <stdint.h>
#include <string.h>

/* xorshift64*; state must not be 0. */
static inline float number_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (float)(int32_t)((*state * 0x2545f4914f6cdd1du) >> 33) / 1073741824.0f - 1.0f;
}

static inline float number_from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t number_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Element i of an array of bf16 or float. */
static inline float number_at(const void *array, size_t i, int bf16)
{
    return bf16 ? number_from_bf16(((const uint16_t *)array)[i]) : ((const float *)array)[i];
}

static inline void number_set(void *array, size_t i, float x, int bf16)
{
    if (bf16)
        ((uint16_t *)array)[i] = number_to_bf16(x);
    else
        ((float *)array)[i] = x;
}

#endif
