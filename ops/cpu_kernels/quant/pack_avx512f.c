/* pack_avx512f - packs stored blocks of weights with AVX-512. */
#define VECTOR_BYTES 64
#define PACK         mr_quant_pack_avx512f
#include "ops/cpu_kernels/quant/pack_body.h"
