/* quant_avx512vnni - the products of quant.h for AVX-512 with VNNI. */
#define LANES_VNNI
#include "ops/cpu_kernels/quant/lanes_avx512.h"

#define TILE_ROWS      4
#define TILE_ROWS_2    4
#define TILE_ROWS_4    2
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_avx512vnni
#include "ops/cpu_kernels/quant/quant_body.h"
