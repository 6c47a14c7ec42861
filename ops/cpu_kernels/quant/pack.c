/* pack - packs stored blocks of weights, on any processor. */
#define VECTOR_BYTES 16
#define PACK         mr_quant_pack
#include "ops/cpu_kernels/quant/pack_body.h"
