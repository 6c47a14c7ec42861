/* Measures gathering and scattering of KV blocks: 32 blocks of a model with 48 layers and SmolLM2's
 * heads (3 of 64, bf16). `bench_kv_gather [REPETITIONS]` prints the median and the 95th percentile,
 * and whether the round trip gives the same bytes.
 *
 * gather: builds the list of memory pieces that the Redis connection passes to the socket; the
 * bytes stay in the pool. The round trip copies the pieces of one pool to those of another. copy:
 * copies the blocks, which is necessary if sockets cannot read the pool. With blocks of 256 tokens
 * 302 MB are read and 302 MB written. The second copy has 512 tokens (2 blocks), the same number as
 * 32 blocks of 16 tokens. int8: converts the blocks on the threads of the parallel team. Its bytes
 * are counted as bf16. fresh pool: no page of the pool is resident yet, so this is the cost of the
 * first use of a block. */
#include "codec/check.h"
#include "kvcache/remote/block_frame.h"
#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#define LAYERS          48u
#define BLOCKS          32u
#define POOL_BLOCKS     (2u * BLOCKS + 1u)
#define PIECES_MAX      256u
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

static void print_times(const char *what, double *ms, uint32_t count, size_t bytes)
{
    qsort(ms, count, sizeof *ms, ascending);
    double median = ms[count / 2];
    printf("%-34s median %8.4f ms  p95 %8.4f ms", what, median, ms[count * 95 / 100]);
    if (bytes) printf("  %6.1f MB  %5.1f GB/s", (double)bytes / 1e6, (double)bytes / median / 1e6);
    printf("\n");
}

/* Block ids scattered over the pool, as in a pool that has been used for a while. */
static uint32_t block_at(uint32_t i, uint32_t block_count)
{
    return i * 37 % block_count;
}

/* Lists the memory pieces of the blocks, cut into slices as for Redis; returns their number. */
static uint32_t list_pieces(const struct mr_cpu_kv *kv, uint32_t blocks, struct iovec *pieces)
{
    size_t bytes = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS);
    struct mr_slices slices = mr_slices_of(bytes, bytes / LAYERS);
    uint32_t count = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        unsigned char *block = mr_cpu_kv_bytes_of(kv, block_at(i, POOL_BLOCKS));
        for (uint32_t slice = 0; slice < slices.count; slice++) {
            MR_ASSERT(count < PIECES_MAX);
            pieces[count++] = (struct iovec){.iov_base = block + slice * slices.bytes,
                                             .iov_len = mr_slices_length(&slices, bytes, slice)};
        }
    }
    return count;
}

static void measure_pieces(const struct mr_cpu_kv *kv, uint32_t blocks, uint32_t repetitions)
{
    static double ms[REPETITIONS_MAX];
    struct iovec pieces[PIECES_MAX];
    char text[64];
    uint32_t count = 0;
    for (uint32_t run = 0; run < repetitions; run++) {
        double begin_ms = now_ms();
        count = list_pieces(kv, blocks, pieces);
        ms[run] = now_ms() - begin_ms;
    }
    snprintf(text, sizeof text, "gather %u blocks: %u pieces", blocks, count);
    print_times(text, ms, repetitions, 0);
}

/* Copies the pieces of one pool to those of another; returns whether the bytes are the same. */
static bool round_trip(const struct mr_cpu_kv *from, const struct mr_cpu_kv *to)
{
    struct iovec out[PIECES_MAX], in[PIECES_MAX];
    uint32_t count = list_pieces(from, BLOCKS, out);
    bool same = list_pieces(to, BLOCKS, in) == count;
    for (uint32_t i = 0; i < count; i++)
        memcpy(in[i].iov_base, out[i].iov_base, out[i].iov_len);
    size_t bytes = mr_cpu_kv_export_bytes(from, MR_BLOCK_TOKENS);
    unsigned char *block = malloc(bytes);
    MR_ASSERT(block != NULL);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        mr_cpu_kv_export(to, block_at(i, POOL_BLOCKS), 0, MR_BLOCK_TOKENS, block);
        same =
            same && memcmp(block, mr_cpu_kv_bytes_of(from, block_at(i, POOL_BLOCKS)), bytes) == 0;
    }
    free(block);
    return same;
}

static void fill(const struct mr_cpu_kv *kv)
{
    size_t bytes = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        unsigned char *block = mr_cpu_kv_bytes_of(kv, block_at(i, POOL_BLOCKS));
        for (size_t at = 0; at < bytes; at++)
            block[at] = (unsigned char)((at + i) * 2654435761u >> 13);
    }
}

static void measure_copies(struct mr_cpu_kv *kv, uint32_t blocks, uint32_t repetitions,
                           const char *kind)
{
    static double out_ms[REPETITIONS_MAX], in_ms[REPETITIONS_MAX];
    size_t one = mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS), bytes = blocks * one;
    unsigned char *flat = malloc(bytes);
    MR_ASSERT(flat != NULL);
    memset(flat, 1, bytes);
    for (uint32_t run = 0; run < repetitions; run++) {
        double begin_ms = now_ms();
        for (uint32_t i = 0; i < blocks; i++)
            mr_cpu_kv_import(kv, block_at(i, POOL_BLOCKS), 0, MR_BLOCK_TOKENS, flat + i * one);
        double middle_ms = now_ms();
        for (uint32_t i = 0; i < blocks; i++)
            mr_cpu_kv_export(kv, block_at(i, POOL_BLOCKS), 0, MR_BLOCK_TOKENS, flat + i * one);
        in_ms[run] = middle_ms - begin_ms;
        out_ms[run] = now_ms() - middle_ms;
    }
    char text[64];
    snprintf(text, sizeof text, "copy %u blocks out%s", blocks, kind);
    print_times(text, out_ms, repetitions, bytes);
    snprintf(text, sizeof text, "copy %u blocks in%s", blocks, kind);
    print_times(text, in_ms, repetitions, bytes);
    free(flat);
}

static void measure_int8(struct mr_cpu_kv *kv, uint32_t repetitions)
{
    static double out_ms[REPETITIONS_MAX], in_ms[REPETITIONS_MAX];
    size_t one = mr_cpu_kv_int8_bytes(kv, MR_BLOCK_TOKENS);
    size_t bytes = BLOCKS * mr_cpu_kv_export_bytes(kv, MR_BLOCK_TOKENS);
    unsigned char *flat = malloc(BLOCKS * one);
    MR_ASSERT(flat != NULL);
    memset(flat, 0x3f, BLOCKS * one);
    for (uint32_t i = 0; i < BLOCKS; i++) /* the bytes of fill() may be NaN */
        mr_cpu_kv_int8_import(kv, block_at(i, POOL_BLOCKS), 0, MR_BLOCK_TOKENS, flat + i * one);
    for (uint32_t run = 0; run < repetitions; run++) {
        double begin_ms = now_ms();
        for (uint32_t i = 0; i < BLOCKS; i++)
            MR_ASSERT(mr_cpu_kv_int8_export(kv, block_at(i, POOL_BLOCKS), 0, MR_BLOCK_TOKENS,
                                            flat + i * one));
        double middle_ms = now_ms();
        for (uint32_t i = 0; i < BLOCKS; i++)
            mr_cpu_kv_int8_import(kv, block_at(i, POOL_BLOCKS), 0, MR_BLOCK_TOKENS, flat + i * one);
        out_ms[run] = middle_ms - begin_ms;
        in_ms[run] = now_ms() - middle_ms;
    }
    char text[64];
    snprintf(text, sizeof text, "int8 %u blocks out, %u threads", BLOCKS,
             mr_parallel_thread_count());
    print_times(text, out_ms, repetitions, bytes);
    snprintf(text, sizeof text, "int8 %u blocks in, %u threads", BLOCKS,
             mr_parallel_thread_count());
    print_times(text, in_ms, repetitions, bytes);
    free(flat);
}

static struct mr_cpu_kv *make_pool(void)
{
    const struct mr_cpu_kv_spec spec = {.layer_count = LAYERS,
                                        .kv_head_count = 3,
                                        .head_dim = 64,
                                        .block_count = POOL_BLOCKS,
                                        .bf16 = true};
    struct mr_cpu_kv *kv;
    struct mr_error err = {0};
    if (mr_cpu_kv_create(&kv, &spec, &err) == MR_OK) return kv;
    fprintf(stderr, "%s\n", err.detail);
    exit(1);
}

int main(int argc, char **argv)
{
    const uint32_t few = BLOCKS * 16 / MR_BLOCK_TOKENS > 0 ? BLOCKS * 16 / MR_BLOCK_TOKENS : 1;
    uint32_t repetitions = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100;
    if (repetitions == 0 || repetitions > REPETITIONS_MAX) repetitions = REPETITIONS_MAX;
    struct mr_cpu_kv *one = make_pool(), *two = make_pool();
    measure_copies(two, BLOCKS, 1, ", fresh pool");
    fill(one);
    measure_pieces(one, BLOCKS, repetitions);
    measure_copies(two, BLOCKS, repetitions, "");
    measure_copies(two, few, repetitions, "");
    bool same = round_trip(one, two);
    for (uint32_t threads = 1; threads <= 2; threads++)
        if (mr_parallel_set_thread_count(threads, NULL) == MR_OK) measure_int8(one, repetitions);
    printf("round trip: %s\n", same ? "the same bytes" : "DIFFERS");
    mr_cpu_kv_destroy(two);
    mr_cpu_kv_destroy(one);
    return same ? 0 : 1;
}
