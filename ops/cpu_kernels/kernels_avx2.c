/* kernels_avx2 - the tables of kernel functions (struct mr_cpu_ops of level.h) for AVX2, and for
 * AVX2 with AVX-VNNI, which differ in the products of integer weights. Of its 16 vector registers
 * of 8 floats each, a matrix product uses 8 for sums and the rest for operands. On a Zen 4,
 * converting rows to floats beforehand makes the product of one or two rows twice as fast and that
 * of 8 to 128 rows 5 to 10 % slower; four rows take the same time. From TILE_BF16_ROWS rows on the
 * pairs are therefore converted in registers, which reaches 107 of 118 GFLOP/s. */
#include "ops/cpu_kernels/lanes_avx2.h"

#define TILE_FLOATS
#define TILE_BF16_ROWS 4
#define TILE_ROWS      4
#define TILE_ROWS_2    2
#define TILE_ROWS_4    1
#define TILE_ROWS_8    0

#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_avx2
#define TABLE  mr_cpu_ops_avx2
#include "ops/cpu_kernels/table_body.h"

#undef QUANT
#undef TABLE
#define QUANT mr_quant_ops_avxvnni
#define TABLE mr_cpu_ops_avxvnni
#include "ops/cpu_kernels/table_body.h"
