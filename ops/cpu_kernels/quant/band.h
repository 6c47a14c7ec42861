/* band - the number formats of weights that are computed as small integers, and the bands of a
 * weight matrix: runs of rows in one format. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_BAND_H
#define MR_OPS_CPU_KERNELS_QUANT_BAND_H

#include <stdint.h>

enum mr_quant_format {
    MR_QUANT_NONE, /* not computed in small integers */
    MR_QUANT_INT8,
    MR_QUANT_Q8_0,
    MR_QUANT_Q4_0,
    MR_QUANT_Q4_1,
    MR_QUANT_Q5_0,
    MR_QUANT_Q5_1,
    MR_QUANT_Q4_K,
    MR_QUANT_Q5_K,
    MR_QUANT_Q6_K,
    MR_QUANT_IQ4_NL,
    MR_QUANT_IQ4_XS,
    MR_QUANT_MXFP4,
    MR_QUANT_COUNT
};

#define MR_QUANT_BANDS_MAX 4u
/* Neighbouring rows of a weight matrix in one format. */
struct mr_quant_band {
    uint32_t rows; /* a multiple of 16 in every band except the last */
    enum mr_quant_format format;
};

#endif
