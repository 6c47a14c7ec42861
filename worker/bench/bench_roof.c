#include "worker/bench/bench_roof.h"

#include "ops/cpu_kernels/kernels.h"
#include "ops/cpu_kernels/parallel.h"
#include "worker/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define READ_BYTES ((size_t)512 << 20)
enum { READS = 6, ROWS = 512, PRODUCTS = 8 };
/* Memory is read like panels of weights: each piece as several parallel streams, prefetched into
 * L2. A single stream without prefetch reads 0.6 to 0.8 times as fast on a core of Zen 4. */
enum { STREAMS = 8, STREAM_WORDS = 8192, PIECE_WORDS = STREAMS * STREAM_WORDS, AHEAD_WORDS = 128 };

/* ---- memory ---- */

struct read_loop {
    const uint64_t *words;
    uint64_t *sums; /* [MR_PARALLEL_THREADS_MAX]; keeps the compiler from leaving the loop out */
};

static void read_line(const uint64_t *line, uint64_t sums[8])
{
    __builtin_prefetch(line + AHEAD_WORDS, 0, 2);
    for (uint32_t k = 0; k < 8; k++)
        sums[k] += line[k];
}

static void read_pieces(void *context, size_t begin, size_t end)
{
    const struct read_loop *loop = context;
    uint64_t sums[8] = {0};
    for (size_t piece = begin; piece < end; piece++)
        for (size_t i = 0; i < STREAM_WORDS; i += 8)
            for (size_t stream = 0; stream < STREAMS; stream++)
                read_line(loop->words + piece * PIECE_WORDS + stream * STREAM_WORDS + i, sums);
    for (uint32_t k = 0; k < 8; k++)
        loop->sums[mr_parallel_thread_index()] += sums[k];
}

enum mr_status mr_bench_roof_memory(double *bytes_per_s, struct mr_error *err)
{
    uint64_t sums[MR_PARALLEL_THREADS_MAX] = {0};
    uint64_t *words = aligned_alloc((size_t)2 << 20, READ_BYTES);
    if (!words) return mr_fail(err, MR_NOMEM, "no memory for measuring the memory bandwidth");
    (void)madvise(words, READ_BYTES, MADV_HUGEPAGE); /* a hint, as for weights */
    memset(words, 1, READ_BYTES);
    struct read_loop loop = {words, sums};
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t i = 0; i < READS; i++) {
        const uint64_t start_ns = mr_clock_ns();
        mr_parallel_for(READ_BYTES / sizeof *words / PIECE_WORDS, 1, read_pieces, &loop);
        const uint64_t took_ns = mr_clock_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    *bytes_per_s = (double)READ_BYTES * 1e9 / (double)best_ns;
    free(words);
    return MR_OK;
}

/* ---- the matrix product ---- */

static void weights_row(void *context, uint32_t row, float *out)
{
    const uint32_t width = *(const uint32_t *)context;
    for (uint32_t i = 0; i < width; i++)
        out[i] = (float)((row * 31 + i * 7) % 255) / 127.0f - 1.0f;
}

/* A layer in f32, bf16, int8, or, for a file's own integers and int4, groups of 4 bits. */
static struct mr_cpu_linear_spec layer_of(const struct mr_model_info *info, uint32_t *width)
{
    const uint32_t size = info->ffn_size > 0 ? info->ffn_size : info->hidden_size;
    struct mr_cpu_linear_spec spec = {.out_size = 2 * size / 16 * 16,
                                      .in_size = info->hidden_size,
                                      .bf16 = strcmp(info->dtype, "f32") != 0,
                                      .source = weights_row,
                                      .source_context = width};
    const bool int8 = strcmp(info->dtype, "int8") == 0;
    if (!int8 && strcmp(info->dtype, "int4") != 0 && strcmp(info->dtype, "quantized") != 0)
        return spec;
    spec.band_count = 1;
    spec.bands[0].rows = spec.out_size;
    spec.bands[0].format = int8 || spec.in_size % 32 != 0 ? MR_QUANT_INT8 : MR_QUANT_Q4_0;
    return spec;
}

static enum mr_status measure_flops(double *flops_per_s, const struct mr_model_info *info,
                                    struct mr_error *err)
{
    uint32_t width = info->hidden_size;
    const struct mr_cpu_linear_spec spec = layer_of(info, &width);
    struct mr_cpu_linear *linear = NULL;
    const size_t out_bytes = (size_t)ROWS * spec.out_size * sizeof(float);
    const size_t x_bytes = (size_t)ROWS * width * (spec.bf16 ? 2 : 4);
    float *out = aligned_alloc(64, (out_bytes + 63) / 64 * 64);
    void *x = aligned_alloc(64, (x_bytes + 63) / 64 * 64);
    void *scratch = aligned_alloc(64, MR_CPU_LINEAR_SCRATCH_BYTES);
    enum mr_status status = out && x && scratch
                                ? mr_cpu_linear_create(&linear, &spec, err)
                                : mr_fail(err, MR_NOMEM, "no memory to measure a linear layer");
    if (status != MR_OK) goto out_free;
    uint64_t best_ns = UINT64_MAX;
    memset(x, 0x3f, x_bytes); /* 0.7 in f32 and in bf16 */
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        const uint64_t start_ns = mr_clock_ns();
        mr_cpu_linear_run(linear, x, ROWS, MR_CPU_STORE_F32, out, scratch);
        const uint64_t took_ns = mr_clock_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    *flops_per_s = 2.0 * ROWS * spec.out_size * width * 1e9 / (double)best_ns;
    mr_cpu_linear_destroy(linear);
out_free:
    free(scratch);
    free(x);
    free(out);
    return status;
}

enum mr_status mr_bench_roof_measure(struct mr_bench_roof *out, const struct mr_model_info *info,
                                     struct mr_error *err)
{
    *out = (struct mr_bench_roof){0};
    if (strcmp(info->backend, "cpu") != 0) return MR_OK;
    enum mr_status status = mr_bench_roof_memory(&out->bytes_per_s, err);
    return status == MR_OK ? measure_flops(&out->flops_per_s, info, err) : status;
}

/* ---- work ---- */

/* Numbers in the linear layers of all layers, and in the output layer. */
static double layer_weights(const struct mr_model_info *info)
{
    const double hidden = info->hidden_size, dim = info->head_dim;
    const double attention = (2.0 * info->head_count + 2.0 * info->kv_head_count) * dim * hidden;
    return info->layer_count * (attention + 3.0 * hidden * info->ffn_size);
}

static double output_weights(const struct mr_model_info *info)
{
    return (double)info->vocab_size * info->hidden_size;
}

void mr_bench_work_add_weights(struct mr_bench_work *work, const struct mr_model_info *info,
                               double count, double rows)
{
    const double each = (double)info->weight_bytes / (double)info->parameter_count;
    work->bytes += count * each * (layer_weights(info) + output_weights(info));
    work->flops += count * rows * 2.0 * output_weights(info);
}

void mr_bench_work_add_tokens(struct mr_bench_work *work, const struct mr_model_info *info,
                              double tokens, double context, bool reads_kv)
{
    const double pairs = tokens * (context + (tokens + 1.0) / 2.0);
    work->flops += tokens * 2.0 * layer_weights(info) +
                   4.0 * info->layer_count * info->head_count * info->head_dim * pairs;
    if (reads_kv) work->bytes += context * (double)info->kv_bytes_per_token;
}

double mr_bench_roof_seconds(const struct mr_bench_roof *roof, const struct mr_model_info *info,
                             const struct mr_bench_work *work)
{
    const bool experts =
        (double)info->parameter_count > 1.1 * (layer_weights(info) + 2.0 * output_weights(info));
    if (experts || roof->bytes_per_s <= 0 || roof->flops_per_s <= 0) return 0;
    const double reading = work->bytes / roof->bytes_per_s;
    const double computing = work->flops / roof->flops_per_s;
    return reading > computing ? reading : computing;
}
