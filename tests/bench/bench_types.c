/* bench_types - measures the linear layers of a 1.1 B-shaped model with weights in several number
 * formats, at a chosen instruction set. Prints the best of several runs; run it on an idle machine.
 *
 *     bench_types [--level NAME] [--threads N] [TYPE]
 *
 * NAME: an instruction set by its name in mr_cpu_level_name; the best one by default. N: 2 by
 * default. TYPE: one of the types; all by default. */
#include "ops/cpu_kernels/kernels.h"
#include "ops/cpu_kernels/parallel.h"
#include "tests/bench/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum mr_cpu_level level;

enum { LAYERS = 2, ROWS = 512, RUNS = 5 }; /* 50 MB in 4 bits, which is larger than most caches */

static const uint32_t sizes[4][2] = {{3072, 2048}, {2048, 2048}, {16384, 2048}, {2048, 8192}};

/* The stored blocks of a row, the same for all rows: random codes, scales of about 0.001. */
struct stored_row {
    uint32_t in_size;
    unsigned char *blocks;
};

static void stored_source(void *context, uint32_t row, float *out)
{
    const struct stored_row *stored = context;
    for (uint32_t i = 0; i < stored->in_size; i++)
        out[i] = (float)((row * 31u + i * 17u) % 97u) / 970.0f - 0.05f;
}

static const unsigned char *stored_blocks(void *context, uint32_t row)
{
    (void)row;
    return ((struct stored_row *)context)->blocks;
}

static unsigned char *make_blocks(enum mr_storage storage, uint32_t in_size)
{
    const size_t bytes = mr_storage_block_bytes(storage);
    const size_t size = in_size / mr_storage_block_numbers(storage) * bytes;
    unsigned char *blocks = check_memory(malloc(size));
    uint32_t state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        blocks[i] = (unsigned char)(state >> 24);
    }
    for (size_t i = 0; i < size; i += bytes) {
        memcpy(blocks + i, (const uint16_t[]){0x1400, 0x1400}, 4);
        if (storage == MR_STORAGE_Q6_K) memcpy(blocks + i + 208, (const uint16_t[]){0x1400}, 2);
    }
    return blocks;
}

struct type {
    const char *name;
    enum mr_storage storage; /* MR_STORAGE_F32: no stored form, made from floats */
    enum mr_quant_format format;
    bool f32;
};

static struct mr_cpu_linear *make_typed(const struct type *type, uint32_t out_size,
                                        uint32_t in_size)
{
    struct mr_cpu_linear *linear;
    struct mr_error err;
    struct stored_row row = {.in_size = in_size};
    struct mr_cpu_linear_spec spec = {.out_size = out_size,
                                      .in_size = in_size,
                                      .bf16 = !type->f32,
                                      .source = stored_source,
                                      .source_context = &row,
                                      .bands = {{out_size, type->format}},
                                      .band_count = type->format != MR_QUANT_NONE,
                                      .level = level};
    if (type->storage != MR_STORAGE_F32) {
        row.blocks = make_blocks(type->storage, in_size);
        spec.stored = stored_blocks;
    }
    check_status(mr_cpu_linear_create(&linear, &spec, &err), &err);
    free(row.blocks);
    return linear;
}

/* Measures the layers for several numbers of rows. */
static void bench_type(const struct type *type, const void *x, float *out, void *scratch)
{
    static const uint32_t rows[] = {1, 2, 4, 8, 16, 32, 128, ROWS};
    struct mr_cpu_linear *layers[LAYERS * 4];
    double bytes = 0.0, weights = 0.0;
    for (size_t i = 0; i < LAYERS * 4; i++) {
        layers[i] = make_typed(type, sizes[i % 4][0], sizes[i % 4][1]);
        bytes += (double)mr_cpu_linear_bytes(layers[i]);
        weights += (double)sizes[i % 4][0] * sizes[i % 4][1];
    }
    printf("  %-6s", type->name);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double best = INFINITY;
        for (int run = 0; run < (rows[r] < 128 ? 4 * RUNS : RUNS); run++) {
            const double start = now_ms();
            for (size_t i = 0; i < LAYERS * 4; i++)
                mr_cpu_linear_run(layers[i], x, rows[r], MR_CPU_STORE_F32, out, scratch);
            best = fmin(best, now_ms() - start);
        }
        printf("  %7.2f %6.0f %5.1f", best, 2.0 * weights * rows[r] / best / 1e6,
               bytes / best / 1e6);
    }
    printf("\n");
    for (size_t i = 0; i < LAYERS * 4; i++)
        mr_cpu_linear_destroy(layers[i]);
}

static void bench_types(const char *wanted)
{
    static const struct type types[] = {
        {"f32", MR_STORAGE_F32, MR_QUANT_NONE, true},
        {"bf16", MR_STORAGE_F32, MR_QUANT_NONE, false},
        {"int8", MR_STORAGE_F32, MR_QUANT_INT8, false},
        {"Q8_0", MR_STORAGE_Q8_0, MR_QUANT_Q8_0, false},
        {"Q6_K", MR_STORAGE_Q6_K, MR_QUANT_Q6_K, false},
        {"Q5_K", MR_STORAGE_Q5_K, MR_QUANT_Q5_K, false},
        {"Q4_K", MR_STORAGE_Q4_K, MR_QUANT_Q4_K, false},
        {"Q4_0", MR_STORAGE_Q4_0, MR_QUANT_Q4_0, false},
        {"IQ4_XS", MR_STORAGE_IQ4_XS, MR_QUANT_IQ4_XS, false},
    };
    float *x = check_memory(malloc((size_t)ROWS * 8192 * sizeof *x));
    for (size_t i = 0; i < (size_t)ROWS * 8192; i++)
        x[i] = (float)(i * 2654435761u >> 12 & 4095u) / 2048.0f - 1.0f;
    uint16_t *narrow = check_memory(malloc((size_t)ROWS * 8192 * sizeof *narrow));
    float *out = check_memory(calloc((size_t)ROWS * 16384, sizeof *out));
    void *scratch = check_memory(aligned_alloc(64, MR_CPU_LINEAR_SCRATCH_BYTES));
    mr_cpu_convert(x, ROWS, 8192, true, narrow);
    printf("level %s, linear layers of a 1.1 B-shaped model (%d of 16), for 1, 2, 4, 8, 16, 32, "
           "128, %d rows: "
           "ms, GFLOP/s, GB/s of weights\n",
           mr_cpu_level_name(mr_cpu_level(level)), LAYERS, ROWS);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!wanted || strcmp(wanted, types[i].name) == 0)
            bench_type(&types[i], types[i].f32 ? (const void *)x : narrow, out, scratch);
    free(scratch);
    free(out);
    free(narrow);
    free(x);
}

static void set_level(const char *name)
{
    for (level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)
        if (strcmp(mr_cpu_level_name(level), name) == 0 && mr_cpu_level(level) == level) return;
    fprintf(stderr, "bench_types: this machine has no level %s\n", name);
    exit(1);
}

int main(int argc, char **argv)
{
    struct mr_error err;
    uint32_t threads = 2;
    int first = 1;
    for (; argc > first + 1 && strncmp(argv[first], "--", 2) == 0; first += 2) {
        if (strcmp(argv[first], "--level") == 0) {
            set_level(argv[first + 1]);
        } else if (strcmp(argv[first], "--threads") == 0) {
            threads = (uint32_t)strtoul(argv[first + 1], NULL, 10);
        } else {
            fprintf(stderr, "bench_types: unknown option %s\n", argv[first]);
            return 1;
        }
    }
    check_status(mr_parallel_set_thread_count(threads, &err), &err);
    bench_types(argc > first ? argv[first] : NULL);
    return 0;
}
