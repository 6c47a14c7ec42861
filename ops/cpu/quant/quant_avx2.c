/* quant_avx2 - the products of quant.h for AVX2, in pairs of registers. The instruction that
 * multiplies unsigned with signed bytes adds two products in int16 and saturates: with codes of at
 * most 6 bits it cannot overflow; codes of 8 bits are made signed, and their sign is moved to the
 * other factor. */
#include "ops/cpu/quant/lanes_avx2.h"

#define TILE_ROWS      3
#define TILE_ROWS_2    1
#define TILE_ROWS_4    0
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_avx2
#include "ops/cpu/quant/quant_body.h"
