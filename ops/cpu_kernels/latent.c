#include "ops/cpu_kernels/latent.h"

#include "codec/check.h"
#include "ops/cpu_kernels/level.h"
#include "ops/cpu_kernels/linear.h"
#include "ops/cpu_kernels/parallel.h"

#include <string.h>

#define JOB_ROWS         32u  /* rows that a job multiplies with the matrix of a head */
#define SIZE_MAX_OF_HEAD 256u /* most numbers of a head without rotary embedding, or of a value */

/* A product of rows with the matrix of each head. A job is one head and up to JOB_ROWS rows. Jobs
 * count first through the blocks of rows, so that a thread reads a matrix once. */
struct head_run {
    const struct mr_cpu_latent *latent;
    const void *in;
    void *out;
    uint32_t rows, blocks;
};

struct head_job {
    uint32_t head, row, rows;
};

static struct head_job job_of(const struct head_run *run, size_t index)
{
    struct head_job job = {.head = (uint32_t)(index / run->blocks),
                           .row = (uint32_t)(index % run->blocks) * JOB_ROWS};
    job.rows = run->rows - job.row < JOB_ROWS ? run->rows - job.row : JOB_ROWS;
    return job;
}

static void run_heads(struct head_run *run, void (*jobs)(void *context, size_t begin, size_t end))
{
    run->blocks = (run->rows + JOB_ROWS - 1) / JOB_ROWS;
    mr_parallel_for((size_t)run->latent->head_count * run->blocks, 1, jobs, run);
}

/* c = a times the transposed matrix of the head. tile: has a, c and their strides. */
static void multiply(const struct mr_cpu_latent *latent, const struct mr_cpu_linear *linear,
                     const struct head_job *job, struct mr_cpu_tile *tile)
{
    tile->panels = linear->panel_count / latent->head_count;
    tile->panel_bytes = (size_t)linear->word_count * MR_PANEL_BYTES;
    tile->b = linear->words + (size_t)job->head * tile->panels * tile->panel_bytes;
    tile->panels_ahead = tile->panels;
    tile->rows = job->rows;
    tile->word_count = linear->word_count;
    if (linear->bf16)
        linear->ops->tile_bf16(tile);
    else
        linear->ops->tile_f32(tile);
}

/* Copies the rotary numbers of q after the absorbed ones, with zeros up to the padded size. */
static void copy_rotary(const struct mr_latent_shape *shape, const float *q, float *to)
{
    const uint32_t padded = mr_latent_padded(shape->rope_dim);
    memcpy(to, q + shape->nope_dim, shape->rope_dim * sizeof *to);
    memset(to + shape->rope_dim, 0, (padded - shape->rope_dim) * sizeof *to);
}

static void absorb_heads(void *context, size_t begin, size_t end)
{
    const struct head_run *run = context;
    const struct mr_cpu_latent *latent = run->latent;
    const struct mr_latent_shape *shape = &latent->shape;
    const struct mr_cpu_linear *keys = latent->keys;
    const size_t q_stride = (size_t)latent->head_count * mr_latent_head(shape);
    const size_t stride = (size_t)latent->head_count * mr_latent_key(shape);
    const size_t x_bytes = shape->nope_dim * mr_cpu_linear_number_bytes(keys);
    _Alignas(64) unsigned char x[JOB_ROWS * SIZE_MAX_OF_HEAD * sizeof(float)];
    for (size_t i = begin; i < end; i++) {
        const struct head_job job = job_of(run, i);
        const float *q =
            (const float *)run->in + job.row * q_stride + (size_t)job.head * mr_latent_head(shape);
        float *to = (float *)run->out + job.row * stride + (size_t)job.head * mr_latent_key(shape);
        struct mr_cpu_tile tile = {.a = x, .a_stride_bytes = x_bytes, .c = to, .c_stride = stride};
        for (uint32_t row = 0; row < job.rows; row++)
            keys->ops->convert(q + row * q_stride, 1.0f, shape->nope_dim, keys->bf16,
                               x + row * x_bytes);
        multiply(latent, keys, &job, &tile);
        for (uint32_t row = 0; row < job.rows; row++)
            copy_rotary(shape, q + row * q_stride, to + row * stride + mr_latent_value(shape));
    }
}

void mr_cpu_latent_absorb(const struct mr_cpu_latent *latent, const float *q, uint32_t rows,
                          float *absorbed)
{
    struct head_run run = {.latent = latent, .in = q, .out = absorbed, .rows = rows};
    MR_ASSERT(latent->shape.nope_dim <= SIZE_MAX_OF_HEAD);
    run_heads(&run, absorb_heads);
}

static void value_heads(void *context, size_t begin, size_t end)
{
    const struct head_run *run = context;
    const struct mr_cpu_latent *latent = run->latent;
    const struct mr_latent_shape *shape = &latent->shape;
    const struct mr_cpu_linear *values = latent->values;
    const uint32_t width = mr_latent_value(shape), padded = mr_latent_padded(shape->value_dim);
    const size_t number = mr_cpu_linear_number_bytes(values);
    const size_t in_bytes = (size_t)latent->head_count * width * number;
    const size_t out_bytes = (size_t)latent->head_count * shape->value_dim * number;
    _Alignas(64) float sums[JOB_ROWS * SIZE_MAX_OF_HEAD];
    for (size_t i = begin; i < end; i++) {
        const struct head_job job = job_of(run, i);
        unsigned char *to = (unsigned char *)run->out + job.row * out_bytes +
                            (size_t)job.head * shape->value_dim * number;
        struct mr_cpu_tile tile = {.a = (const unsigned char *)run->in + job.row * in_bytes +
                                        (size_t)job.head * width * number,
                                   .a_stride_bytes = in_bytes,
                                   .c = sums,
                                   .c_stride = padded};
        multiply(latent, values, &job, &tile);
        for (uint32_t row = 0; row < job.rows; row++)
            values->ops->convert(sums + (size_t)row * padded, 1.0f, shape->value_dim, values->bf16,
                                 to + row * out_bytes);
    }
}

void mr_cpu_latent_values(const struct mr_cpu_latent *latent, const void *attended, uint32_t rows,
                          void *out)
{
    struct head_run run = {.latent = latent, .in = attended, .out = out, .rows = rows};
    MR_ASSERT(mr_latent_padded(latent->shape.value_dim) <= SIZE_MAX_OF_HEAD);
    run_heads(&run, value_heads);
}
