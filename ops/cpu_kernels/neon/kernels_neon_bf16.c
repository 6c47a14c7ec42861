/* kernels_neon_bf16 - the table of kernel functions (struct mr_cpu_ops of level.h) for NEON with
 * dot products of bf16 pairs. A matrix product uses up to 24 of the 32 registers for sums, four for
 * a row of the panel and one for a broadcast word. */
#include "ops/cpu_kernels/neon/lanes_neon.h"

#define TILE_ROWS   6
#define TILE_ROWS_2 3
#define TILE_ROWS_4 1
#define TILE_ROWS_8 0

#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_neon_bf16
#define TABLE  mr_cpu_ops_neon_bf16
#include "ops/cpu_kernels/table_body.h"
