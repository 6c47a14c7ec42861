/* quant_scalar - the products of quant.h for any processor: the reference that the other
 * instruction sets equal bit for bit. */
#include "ops/cpu_kernels/quant/lanes_scalar.h"

#define TILE_ROWS      1
#define TILE_ROWS_2    0
#define TILE_ROWS_4    0
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_scalar
#include "ops/cpu_kernels/quant/quant_body.h"
