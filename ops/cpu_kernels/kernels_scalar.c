/* kernels_scalar - the table of kernel functions (struct mr_cpu_ops of level.h) for any processor,
 * vectorized by the compiler as far as it can. */
#include "ops/cpu_kernels/lanes_scalar.h"

#define TILE_ROWS   4
#define TILE_ROWS_2 1
#define TILE_ROWS_4 0
#define TILE_ROWS_8 0

#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_scalar
#define TABLE  mr_cpu_ops_scalar
#include "ops/cpu_kernels/table_body.h"
