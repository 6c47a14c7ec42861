/* linear - the inside of a linear layer; used by linear.c and rows_body.h. */
#ifndef MR_OPS_CPU_LINEAR_H
#define MR_OPS_CPU_LINEAR_H

#include "ops/cpu/level.h"

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
};

#endif
