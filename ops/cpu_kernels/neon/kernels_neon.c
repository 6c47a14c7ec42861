/* kernels_neon - the table of kernel functions (struct mr_cpu_ops of level.h) for NEON: four of its
 * 32 registers hold 16 floats. A matrix product uses up to 16 for sums; bf16 numbers are converted
 * to floats, which takes 8 more for a row of the panel and two for a broadcast word. */
#include "ops/cpu_kernels/neon/lanes_neon.h"

#define TILE_ROWS   4
#define TILE_ROWS_2 2
#define TILE_ROWS_4 1
#define TILE_ROWS_8 0

#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_neon
#define TABLE  mr_cpu_ops_neon
#include "ops/cpu_kernels/table_body.h"
