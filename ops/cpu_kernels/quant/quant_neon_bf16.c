/* quant_neon_bf16 - the products of quant.h for the level above NEON, whose CPUs also multiply
 * unsigned with signed bytes (I8MM), so codes of 8 bits stay unsigned. */
#include "ops/cpu_kernels/quant/lanes_neon.h"

#define TILE_ROWS      4
#define TILE_ROWS_2    2
#define TILE_ROWS_4    1
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_neon_bf16
#include "ops/cpu_kernels/quant/quant_body.h"
