/* bench_load MODEL: the phases of loading a model, in milliseconds as JSON. `read` copies the file
 * from the page cache on one thread. `write` fills fresh memory of the size of the packed weights.
 * `convert` converts every row to floats, without packing. `load` packs and hashes the weights like
 * a worker at its start, and `load_bf16` like a worker with --dtype bf16. The best of three passes
 * counts, in wall-clock time and in the CPU time of all threads. */
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu_kernels/parallel.h"
#include "ops/files/model_files.h"
#include "ops/weights/weights.h"
#include "worker/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PASSES     3
#define READ_BYTES ((size_t)1 << 20)
#define FILL_BYTES ((size_t)2 << 20)

struct bench {
    const char *path;
    struct mr_model_source source;
    struct mr_weights weights;
    const struct mr_stored_tensor *tensor;
    float *rows; /* one row of numbers for each thread */
    size_t row_numbers;
    unsigned char *memory;
    uint64_t memory_bytes;
};

static void read_file(struct bench *bench)
{
    unsigned char *buffer = malloc(READ_BYTES);
    FILE *file = fopen(bench->path, "rb");
    if (file && buffer) {
        setvbuf(file, NULL, _IONBF, 0);
        while (fread(buffer, 1, READ_BYTES, file) == READ_BYTES) {
        }
    }
    if (file) fclose(file);
    free(buffer);
}

static void fill_part(void *context, size_t begin, size_t end)
{
    struct bench *bench = context;
    memset(bench->memory + begin * FILL_BYTES, 1, (end - begin) * FILL_BYTES);
}

static void write_memory(struct bench *bench)
{
    uint64_t count = bench->memory_bytes / FILL_BYTES;
    bench->memory = aligned_alloc(FILL_BYTES, count * FILL_BYTES);
    if (!bench->memory) return;
    (void)madvise(bench->memory, count * FILL_BYTES, MADV_HUGEPAGE);
    mr_parallel_for(count, 1, fill_part, bench);
    free(bench->memory);
}

static uint64_t row_count(const struct mr_stored_tensor *tensor)
{
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < tensor->dim_count; i++)
        rows *= tensor->dims[i];
    return rows;
}

static void convert_rows(void *context, size_t begin, size_t end)
{
    struct bench *bench = context;
    float *out = bench->rows + mr_parallel_thread_index() * bench->row_numbers;
    for (size_t row = begin; row < end; row++)
        mr_stored_tensor_row(bench->tensor, row, out);
}

static void convert(struct bench *bench)
{
    const struct mr_tensor_table *tensors = bench->source.tensors;
    for (uint32_t i = 0; i < tensors->count; i++) {
        bench->tensor = &tensors->entries[i];
        mr_parallel_for((size_t)row_count(bench->tensor), 1, convert_rows, bench);
    }
}

static void load_as(struct bench *bench, enum mr_weight_numbers numbers)
{
    struct mr_weights_digest *digest = NULL;
    struct mr_compute *compute;
    if (mr_cpu_backend.open(&compute, (struct mr_device){0}, MR_NUMBER_BF16, NULL) != MR_OK) return;
    struct mr_weights_spec spec = {.config = &bench->source.config,
                                   .tensors = bench->source.tensors,
                                   .gguf_names = bench->source.gguf_names,
                                   .compute = compute,
                                   .numbers = numbers};
    if (mr_weights_digest_create(&digest, spec.tensors, NULL) == MR_OK) spec.digest = digest;
    if (spec.digest && mr_weights_load(&bench->weights, &spec, NULL) == MR_OK)
        bench->memory_bytes = bench->weights.packed_bytes;
    mr_weights_destroy(&bench->weights);
    mr_weights_digest_destroy(digest);
    mr_cpu_backend.close(compute);
}

static void load(struct bench *bench)
{
    load_as(bench, MR_WEIGHTS_STORED);
}

static void load_bf16(struct bench *bench)
{
    load_as(bench, MR_WEIGHTS_FLOAT);
}

static void measure(const char *name, void (*phase)(struct bench *), struct bench *bench)
{
    double best = 1e9, best_cpu = 1e9;
    for (int i = 0; i < PASSES; i++) {
        uint64_t start_ns = mr_clock_ns();
        clock_t start = clock();
        phase(bench);
        double ms = (double)(mr_clock_ns() - start_ns) / 1e6;
        double cpu = (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC;
        if (ms < best) best = ms;
        if (cpu < best_cpu) best_cpu = cpu;
    }
    printf(", \"%s_ms\": %.1f, \"%s_cpu_ms\": %.1f", name, best, name, best_cpu);
}

int main(int argc, char **argv)
{
    struct bench bench = {.path = argc == 2 ? argv[1] : ""};
    struct mr_error err = {0};
    uint32_t threads = mr_parallel_core_count();
    enum mr_status status = mr_model_files_read(&bench.source, bench.path, &err);
    if (status == MR_OK) status = mr_parallel_set_thread_count(threads, &err);
    if (status != MR_OK) {
        fprintf(stderr, "usage: bench_load MODEL (%s)\n", err.detail);
        return 2;
    }
    const struct mr_tensor_table *tensors = bench.source.tensors;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct mr_stored_tensor *tensor = &tensors->entries[i];
        size_t width = tensor->dim_count > 0 ? (size_t)tensor->dims[tensor->dim_count - 1] : 1;
        bytes += tensor->size_bytes;
        if (width > bench.row_numbers) bench.row_numbers = width;
    }
    bench.rows = calloc((size_t)threads * bench.row_numbers, sizeof(float));
    if (!bench.rows) return 2;
    printf("{\"threads\": %u, \"bytes\": %llu", threads, (unsigned long long)bytes);
    measure("read", read_file, &bench);
    measure("convert", convert, &bench);
    measure("load_bf16", load_bf16, &bench);
    measure("load", load, &bench);
    printf(", \"packed_bytes\": %llu", (unsigned long long)bench.memory_bytes);
    measure("write", write_memory, &bench);
    puts("}");
    free(bench.rows);
    mr_model_source_close(&bench.source);
    return 0;
}
