/* quant_avx2 - the products of quant.h for AVX2. */
#include "ops/cpu_kernels/quant/lanes_avx2.h"

#define TILE_ROWS      3
#define TILE_ROWS_2    1
#define TILE_ROWS_4    0
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_avx2
#include "ops/cpu_kernels/quant/quant_body.h"
