/* kernels_avx512f - the tables of kernel functions (struct mr_cpu_ops of level.h) for AVX-512
 * without bf16 (Skylake to Ice Lake servers), and for the same with VNNI. The two differ in the
 * products of integer weights. */
#include "ops/cpu_kernels/lanes_avx512.h"

#define TILE_FLOATS
#define TILE_ROWS   11
#define TILE_ROWS_2 11
#define TILE_ROWS_4 5
#define TILE_ROWS_8 1

#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_avx512f
#define TABLE  mr_cpu_ops_avx512f
#include "ops/cpu_kernels/table_body.h"

#undef QUANT
#undef TABLE
#define QUANT mr_quant_ops_avx512vnni
#define TABLE mr_cpu_ops_avx512vnni
#include "ops/cpu_kernels/table_body.h"
