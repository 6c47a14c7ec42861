#include "cases.h"

#include "host/grid.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cases_run(int argc, char **argv, unsigned default_count, void (*run)(struct cases *cases))
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : default_count;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    unsigned failed = 0;
    for (uint64_t i = first; i < first + count && failed < 5; i++) {
        struct cases cases = {.number = i, .random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15)};
        grid_set_order((enum grid_order)(i % GRID_ORDERS), i);
        run(&cases);
        if (cases.failure[0] == 0) continue;
        fprintf(stderr, "case %llu: %s\n", (unsigned long long)i, cases.failure);
        failed++;
    }
    printf("%s after %llu cases\n", failed ? "failed" : "passed", (unsigned long long)count);
    return failed ? 1 : 0;
}

void cases_fail(struct cases *cases, const char *format, ...)
{
    if (cases->failure[0] != 0) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cases->failure, sizeof cases->failure, format, arguments);
    va_end(arguments);
}

/* splitmix64 (Steele, Lea, Flood, 2014). */
static uint64_t next_random(struct cases *cases)
{
    cases->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = cases->random;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint32_t cases_pick(struct cases *cases, uint32_t below)
{
    return (uint32_t)((next_random(cases) >> 32) * below >> 32);
}

uint32_t cases_choose(struct cases *cases, const uint32_t *values, uint32_t count)
{
    return values[cases_pick(cases, count)];
}

double cases_uniform(struct cases *cases)
{
    return (double)(next_random(cases) >> 11) * 0x1p-52 - 1.0;
}

enum mr_cuda_type cases_type(struct cases *cases)
{
    return (enum mr_cuda_type)cases_pick(cases, 3);
}

/* ---- numbers ---- */

size_t numbers_bytes(enum mr_cuda_type type)
{
    return type == MR_CUDA_F32 ? 4 : 2;
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
    if (!memory) abort();
    return memory;
}

void *numbers_random(struct cases *cases, enum mr_cuda_type type, size_t count, double size)
{
    void *numbers = allocate(count * numbers_bytes(type));
    for (size_t i = 0; i < count; i++)
        numbers_set(type, numbers, i, cases_uniform(cases) * size);
    return numbers;
}

void *numbers_nan(enum mr_cuda_type type, size_t count)
{
    void *numbers = allocate(count * numbers_bytes(type));
    memset(numbers, 0xff, count * numbers_bytes(type));
    return numbers;
}

float *floats_random(struct cases *cases, size_t count, double size)
{
    return numbers_random(cases, MR_CUDA_F32, count, size);
}

double numbers_get(enum mr_cuda_type type, const void *numbers, size_t index)
{
    if (type == MR_CUDA_F32) return (double)((const float *)numbers)[index];
    if (type == MR_CUDA_F16) return (double)((const _Float16 *)numbers)[index];
    const uint32_t bits = (uint32_t)((const uint16_t *)numbers)[index] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return (double)number;
}

void numbers_set(enum mr_cuda_type type, void *numbers, size_t index, double value)
{
    if (type == MR_CUDA_F32) {
        ((float *)numbers)[index] = (float)value;
    } else if (type == MR_CUDA_F16) {
        ((_Float16 *)numbers)[index] = (_Float16)(float)value;
    } else {
        int exponent;
        const double fraction = frexp(value, &exponent); /* in [1/2, 1): eight bits are kept */
        const float rounded = (float)ldexp(nearbyint(fraction * 256.0) / 256.0, exponent);
        uint32_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        ((uint16_t *)numbers)[index] = (uint16_t)(bits >> 16);
    }
}

double numbers_round(enum mr_cuda_type type, double value)
{
    float memory;
    numbers_set(type, &memory, 0, value);
    return numbers_get(type, &memory, 0);
}

void numbers_compare(struct cases *cases, struct numbers numbers, size_t index, double expected,
                     double error)
{
    static const double half_places[] = {0x1p-24, 0x1p-11, 0x1p-8};
    const double got = numbers_get(numbers.type, numbers.at, index);
    const double limit = fabs(expected) * half_places[numbers.type] * 1.001 + error +
                         (numbers.type == MR_CUDA_F16 ? 0x1p-25 : 0.0);
    if (fabs(got - expected) <= limit) return; /* false for NaN */
    cases_fail(cases, "%s[%zu] is %.9g, not %.9g within %.2g", numbers.name, index, got, expected,
               limit);
}
