/* quant_avx512 - the products of quant.h for AVX-512 with VNNI, which multiplies four unsigned
 * bytes with four signed ones and adds the products to an int32, exactly. */
#include "ops/cpu/quant/lanes_avx512.h"

#define TILE_ROWS      4
#define TILE_ROWS_2    4
#define TILE_ROWS_4    2
#define TILES_UNPACKED 4u

#define TABLE mr_quant_ops_avx512
#include "ops/cpu/quant/quant_body.h"
