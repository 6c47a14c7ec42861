/* kernels_avx2 - the table of kernel functions (struct mr_cpu_ops of level.h) for AVX2. Of its 16
 * vector registers of 8 floats each, a matrix product uses 8 for sums and the rest for operands. */
#include "ops/cpu/lanes_avx2.h"

#define TILE_ROWS   4
#define TILE_ROWS_2 1
#define TILE_ROWS_4 0
#define TILE_ROWS_8 0

#include "ops/cpu/attend_body.h"
#include "ops/cpu/int8_body.h"
#include "ops/cpu/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_avx2
#define TABLE  mr_cpu_ops_avx2
#include "ops/cpu/table_body.h"
