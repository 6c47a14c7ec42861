/* quant_avx512f - the products of quant.h for AVX-512 without VNNI (Skylake servers). */
#include "ops/cpu_kernels/quant/lanes_avx512.h"

#define TILE_ROWS      4
#define TILE_ROWS_2    4
#define TILE_ROWS_4    2
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_avx512f
#include "ops/cpu_kernels/quant/quant_body.h"
