/* kernels_amx - the table of kernel functions (struct mr_cpu_ops of level.h) for AMX: AVX-512
 * vectors, with bf16 matrix products and attention in tile registers. */
#define LANES_BF16
#include "ops/cpu_kernels/lanes_avx512.h"

#define TILE_ROWS   11
#define TILE_ROWS_2 11
#define TILE_ROWS_4 6
#define TILE_ROWS_8 3
#define TILE_F32_ONLY

#include "ops/cpu_kernels/amx/tile_amx_body.h"
#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"

#include "ops/cpu_kernels/amx/attend_amx_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_tiles
#define QUANT  mr_quant_ops_amx
#define TABLE  mr_cpu_ops_amx
#include "ops/cpu_kernels/table_body.h"
