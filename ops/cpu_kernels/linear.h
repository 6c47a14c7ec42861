/* linear - the internals of a linear layer, for the kernels that compute parts of one: linear.c,
 * experts.c and the epilogue. */
#ifndef MR_OPS_CPU_KERNELS_LINEAR_H
#define MR_OPS_CPU_KERNELS_LINEAR_H

#include "ops/cpu_kernels/low_rank.h"

/* Neighbouring panels of one format. */
struct mr_cpu_panels {
    enum mr_quant_format format;
    uint32_t first, end;
    size_t bytes_each;
    unsigned char *words;
};

struct mr_cpu_linear {
    const struct mr_cpu_ops *ops;
    uint32_t out_size, in_size;
    uint32_t panel_count, word_count;
    bool bf16;
    float scale;
    uint32_t site;        /* of the changes by adapters (low_rank.h); 0: none */
    float *bias;          /* [out_size], or NULL for no bias */
    float curve[4];       /* of MR_CPU_XIELU */
    unsigned char *words; /* weights in panels of level.h; columns past out_size are zero */
    /* Integer weights instead, in panels of quant.h; they point into `words`. */
    struct mr_cpu_panels bands[MR_QUANT_BANDS_MAX];
    uint32_t band_count;
};
static inline size_t mr_cpu_linear_number_bytes(const struct mr_cpu_linear *linear)
{
    return linear->bf16 ? 2 : 4;
}
/* Bytes of a row of x in a cut: a quantized row when the layer has bands. */
static inline size_t mr_cpu_linear_x_bytes(const struct mr_cpu_linear *linear)
{
    return linear->band_count > 0 ? mr_quant_row_bytes(linear->in_size)
                                  : linear->in_size * mr_cpu_linear_number_bytes(linear);
}

/* The product of some rows and a linear layer, cut into units for a parallel loop. A unit is one
 * pair of panels times one block of rows; units count first through the pairs, then the blocks. */
struct mr_cpu_linear_cut {
    const struct mr_cpu_linear *linear;
    const unsigned char *x;
    unsigned char *out;
    enum mr_cpu_epilogue epilogue;
    uint32_t rows, row_block, block_count, pair_count;
    /* With MR_CPU_ADD_F32 only. targets: the row of out that each row of x is added to, no row of
     * out twice; NULL: the row of the same index. factors: numbers that the rows are multiplied by,
     * or NULL. mr_cpu_linear_cut sets both to NULL. */
    const uint32_t *targets;
    const float *factors;
    /* After mr_cpu_shrink; mr_cpu_linear_cut sets it to zero: no row is changed. */
    struct mr_cpu_adapted adapted;
};
/* out: as for mr_cpu_linear_run. x: the same, or rows written by mr_quant_ops.row when the layer
 * has bands. */
struct mr_cpu_linear_cut mr_cpu_linear_cut(const struct mr_cpu_linear *linear, const void *x,
                                           uint32_t rows, enum mr_cpu_epilogue epilogue, void *out);
/* Quantizes rows of x on the parallel team: out [rows, mr_cpu_linear_x_bytes]. For layers with
 * bands. */
void mr_cpu_linear_quantize(const struct mr_cpu_linear *linear, const void *x, uint32_t rows,
                            unsigned char *out);
/* Computes the units [begin, end) on the calling thread. */
void mr_cpu_linear_units(const struct mr_cpu_linear_cut *cut, size_t begin, size_t end);

/* mr_cpu_linear_run with additions. factors: numbers that the rows of y are multiplied by with
 * MR_CPU_ADD_F32, as in a gated shared expert; or NULL. adapted: of the rows, before mr_cpu_shrink.
 */
struct mr_cpu_linear_call {
    const void *x;
    uint32_t rows;
    enum mr_cpu_epilogue epilogue;
    void *out, *scratch;
    const float *factors;
    struct mr_cpu_adapted adapted;
};
void mr_cpu_linear_call(const struct mr_cpu_linear *linear, const struct mr_cpu_linear_call *call);

/* The end of a linear layer: bias, scale and epilogue, applied to the sums c of the product. */
struct mr_cpu_finish {
    const float *c;
    size_t c_stride;
    const float *bias; /* bias of the first column, or NULL for no bias */
    float scale;
    void *out;         /* output of row 0, first column */
    size_t out_stride; /* elements from one row of out to the next */
    uint32_t rows, columns;
    enum mr_cpu_epilogue epilogue;
    bool bf16;
    const uint32_t *targets; /* [rows] or NULL, as in struct mr_cpu_linear_cut */
    const float *factors;
    const float *curve; /* [4] of MR_CPU_XIELU */
};

#endif
