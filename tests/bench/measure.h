/* measure - shared by the programs that measure kernels: a clock, and checks that end the program
 * with one line when an allocation or a call fails. */
#ifndef MR_TESTS_BENCH_MEASURE_H
#define MR_TESTS_BENCH_MEASURE_H

#include "codec/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *check_memory(void *memory)
{
    if (!memory) {
        fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
        exit(1);
    }
    return memory;
}

static void check_status(enum mr_status status, const struct mr_error *err)
{
    if (status == MR_OK) return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, err->detail);
    exit(1);
}

#endif
