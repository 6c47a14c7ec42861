/* quant_neon - the products of quant.h for NEON with dot products of signed bytes, which add four
 * products to an int32, exactly. Codes of at most 6 bits are valid signed bytes; codes of 8 bits
 * are made signed. */
#include "ops/cpu_kernels/quant/lanes_neon.h"

#define TILE_ROWS      4
#define TILE_ROWS_2    2
#define TILE_ROWS_4    1
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_neon
#include "ops/cpu_kernels/quant/quant_body.h"
