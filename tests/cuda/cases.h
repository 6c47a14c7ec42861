/* cases - random cases of a kernel: numbers of the three storage types, random values, and the loop
 * over cases of every test program in this folder. The number of a case determines the case.
 *
 *     cuda_test_NAME [COUNT [FIRST]]     runs COUNT cases from number FIRST on; each in one of the
 *     orders of host/grid.h
 *
 * References are computed in double from the numbers as stored. */
#ifndef MR_TESTS_CUDA_CASES_H
#define MR_TESTS_CUDA_CASES_H

#include "ops/cuda/cuda_kernels.h"

struct cases {
    uint64_t number; /* of the case */
    uint64_t random;
    char failure[400]; /* the first failure; empty: none */
};

/* Runs all cases and prints the first failure of each, with the case's number. Returns the exit
 * status of the program. default_count: the number of cases without arguments. */
int cases_run(int argc, char **argv, unsigned default_count, void (*run)(struct cases *cases));

/* Keeps the first failure of a case. */
void cases_fail(struct cases *cases, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint32_t cases_pick(struct cases *cases, uint32_t below);
/* One of the `count` values. */
uint32_t cases_choose(struct cases *cases, const uint32_t *values, uint32_t count);
/* Uniform in [-1, 1). */
double cases_uniform(struct cases *cases);
enum mr_cuda_type cases_type(struct cases *cases);

/* ---- arrays of a storage type, each allocated alone so that AddressSanitizer sees its end ---- */

size_t numbers_bytes(enum mr_cuda_type type);
/* Returns `count` random numbers in [-size, size); the next function returns NaN. The caller frees
 * them with free(). */
void *numbers_random(struct cases *cases, enum mr_cuda_type type, size_t count, double size);
void *numbers_nan(enum mr_cuda_type type, size_t count);
float *floats_random(struct cases *cases, size_t count, double size);
double numbers_get(enum mr_cuda_type type, const void *numbers, size_t index);
void numbers_set(enum mr_cuda_type type, void *numbers, size_t index, double value);
/* The value, rounded to the type. */
double numbers_round(enum mr_cuda_type type, double value);
/* An array with its name in messages. */
struct numbers {
    const char *name;
    enum mr_cuda_type type;
    const void *at;
};
/* Fails the case unless number `index` is `expected` rounded to the type. `error`: allowed error
 * before the rounding. */
void numbers_compare(struct cases *cases, struct numbers numbers, size_t index, double expected,
                     double error);

#endif
