#include "codec/check.h"
#include "ops/cpu_kernels/level.h"
#include "ops/cpu_kernels/parallel.h"

/* With fewer floats for each thread a parallel loop costs more than it saves. */
#define NORM_GRAIN_FLOATS 16384u

struct norm_run {
    const struct mr_cpu_norm *norm;
    const struct mr_cpu_ops *ops;
    const float *x;
    unsigned char *out;
    float *residual; /* NULL: the rows are written to out */
    float scale;
};

static void norm_rows(void *context, size_t begin, size_t end)
{
    const struct norm_run *run = context;
    const size_t width = run->norm->width, size = run->norm->bf16 ? 2 : 4;
    const size_t stride = run->norm->stride > 0 ? run->norm->stride : width;
    for (size_t row = begin; row < end; row++) {
        const float *x = run->x + row * stride;
        if (run->residual)
            run->ops->norm_add_row(run->norm, x, run->scale, run->residual + row * width);
        else
            run->ops->norm_row(run->norm, x, run->out + row * width * size);
    }
}

static void run_norm(struct norm_run *run, uint32_t rows)
{
    const struct mr_cpu_norm *norm = run->norm;
    MR_ASSERT(norm->padding < norm->width);
    MR_ASSERT(norm->centered ? norm->padding == 0 : !norm->bias);
    run->ops = mr_cpu_row_ops_get(norm->level);
    mr_parallel_for(rows, NORM_GRAIN_FLOATS / norm->width + 1, norm_rows, run);
}

void mr_cpu_norm(const struct mr_cpu_norm *norm, const float *x, uint32_t rows, void *out)
{
    struct norm_run run = {.norm = norm, .x = x, .out = out};
    run_norm(&run, rows);
}

void mr_cpu_norm_add(const struct mr_cpu_norm *norm, const float *x, uint32_t rows, float scale,
                     float *residual)
{
    struct norm_run run = {.norm = norm, .x = x, .residual = residual, .scale = scale};
    run_norm(&run, rows);
}

/* ---- soft cap ---- */

#define SOFTCAP_PART 4096u /* floats in an item of the parallel loop */

struct softcap_run {
    const struct mr_cpu_ops *ops;
    float *x;
    size_t count;
    float cap;
};

static void cap_parts(void *context, size_t begin, size_t end)
{
    const struct softcap_run *run = context;
    const size_t first = begin * SOFTCAP_PART, last = end * SOFTCAP_PART;
    run->ops->softcap(run->x + first, (last < run->count ? last : run->count) - first, run->cap);
}

void mr_cpu_softcap(float *x, size_t count, float cap, enum mr_cpu_level level)
{
    MR_ASSERT(cap > 0.0f);
    struct softcap_run run = {mr_cpu_row_ops_get(level), x, count, cap};
    mr_parallel_for((count + SOFTCAP_PART - 1) / SOFTCAP_PART, 4, cap_parts, &run);
}

/* ---- conversion ---- */

struct convert_run {
    const struct mr_cpu_ops *ops;
    const float *x;
    unsigned char *out;
    uint32_t width;
    bool bf16;
};

static void convert_rows(void *context, size_t begin, size_t end)
{
    const struct convert_run *run = context;
    const size_t size = run->bf16 ? 2 : 4;
    for (size_t row = begin; row < end; row++)
        run->ops->convert(run->x + row * run->width, 1.0f, run->width, run->bf16,
                          run->out + row * run->width * size);
}

void mr_cpu_convert(const float *x, uint32_t rows, uint32_t width, bool bf16, void *out)
{
    struct convert_run run = {mr_cpu_row_ops_get(MR_CPU_BEST), x, out, width, bf16};
    mr_parallel_for(rows, NORM_GRAIN_FLOATS / width + 1, convert_rows, &run);
}
