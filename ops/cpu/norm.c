#include "ops/cpu/level.h"
#include "ops/cpu/parallel.h"

/* With fewer floats for each thread a parallel loop costs more than it saves. */
#define NORM_GRAIN_FLOATS 16384u

struct norm_run {
    const struct mr_cpu_norm *norm;
    const struct mr_cpu_ops *ops;
    const float *x;
    unsigned char *out;
};

static void norm_rows(void *context, size_t begin, size_t end)
{
    const struct norm_run *run = context;
    const size_t width = run->norm->width, size = run->norm->bf16 ? 2 : 4;
    for (size_t row = begin; row < end; row++)
        run->ops->norm_row(run->norm, run->x + row * width, run->out + row * width * size);
}

void mr_cpu_rms_norm(const struct mr_cpu_norm *norm, const float *x, uint32_t rows, void *out)
{
    struct norm_run run = {norm, mr_cpu_ops_get(norm->level), x, out};
    mr_parallel_for(rows, NORM_GRAIN_FLOATS / norm->width + 1, norm_rows, &run);
}
