/* How long it takes to bring KV blocks into one piece of memory, and back: 32 blocks of a model of
 * 48 layers with SmolLM2's heads (3 of 64, bf16). `bench_kv_gather [REPETITIONS]` prints the median
 * and the 95th percentile, and says whether the round trip gives the same bytes.
 *
 * With blocks of 256 tokens that is 302 MB to read and as much to write, which no two cores do in a
 * few milliseconds; 512 tokens of context, as 32 blocks of 16 tokens would hold, are 2 blocks. */
#include "codec/check.h"
#include "ops/cpu/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAYERS          48u
#define BLOCKS          32u
#define REPETITIONS_MAX 1000u

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int ascending(const void *left, const void *right)
{
    double one = *(const double *)left, two = *(const double *)right;
    return one < two ? -1 : one > two;
}

static void say(const char *what, double *ms, uint32_t count, size_t bytes)
{
    qsort(ms, count, sizeof *ms, ascending);
    double median = ms[count / 2];
    printf("%-26s %7.1f MB  median %8.3f ms  p95 %8.3f ms  %5.1f GB/s\n", what, (double)bytes / 1e6,
           median, ms[count * 95 / 100], (double)bytes / median / 1e6);
}

/* Scattered over the pool, as blocks of a busy one are. */
static uint32_t block_at(uint32_t i, uint32_t block_count)
{
    return i * 37 % block_count;
}

static void measure(struct mr_cpu_kv *kv, uint32_t blocks, uint32_t repetitions)
{
    static double out_ms[REPETITIONS_MAX], in_ms[REPETITIONS_MAX];
    const uint32_t pool = 2 * BLOCKS + 1;
    size_t one = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS), bytes = blocks * one;
    unsigned char *first = malloc(bytes), *second = malloc(bytes);
    MR_ASSERT(first != NULL && second != NULL);
    for (size_t i = 0; i < bytes; i++)
        first[i] = (unsigned char)(i * 2654435761u >> 13);
    memset(second, 0, bytes);
    for (uint32_t run = 0; run < repetitions; run++) {
        double begin_ms = now_ms();
        for (uint32_t i = 0; i < blocks; i++)
            mr_cpu_kv_import(kv, block_at(i, pool), MR_BLOCK_TOKENS, first + i * one);
        double middle_ms = now_ms();
        for (uint32_t i = 0; i < blocks; i++)
            mr_cpu_kv_export(kv, block_at(i, pool), MR_BLOCK_TOKENS, second + i * one);
        in_ms[run] = middle_ms - begin_ms;
        out_ms[run] = now_ms() - middle_ms;
    }
    char text[64];
    snprintf(text, sizeof text, "gather %u blocks of %u", blocks, MR_BLOCK_TOKENS);
    say(text, out_ms, repetitions, bytes);
    snprintf(text, sizeof text, "scatter %u blocks of %u", blocks, MR_BLOCK_TOKENS);
    say(text, in_ms, repetitions, bytes);
    printf("round trip: %s\n", memcmp(first, second, bytes) == 0 ? "the same bytes" : "DIFFERS");
    free(second);
    free(first);
}

int main(int argc, char **argv)
{
    uint32_t repetitions = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100;
    if (repetitions == 0 || repetitions > REPETITIONS_MAX) repetitions = REPETITIONS_MAX;
    const struct mr_cpu_kv_spec spec = {.layer_count = LAYERS,
                                        .kv_head_count = 3,
                                        .head_dim = 64,
                                        .block_count = 2 * BLOCKS + 1,
                                        .bf16 = true};
    struct mr_cpu_kv *kv;
    struct mr_error err = {0};
    if (mr_cpu_kv_create(&kv, &spec, &err) != MR_OK) {
        fprintf(stderr, "%s\n", err.detail);
        return 1;
    }
    measure(kv, BLOCKS, repetitions);
    measure(kv, BLOCKS * 16 / MR_BLOCK_TOKENS > 0 ? BLOCKS * 16 / MR_BLOCK_TOKENS : 1, repetitions);
    mr_cpu_kv_destroy(kv);
    return 0;
}
