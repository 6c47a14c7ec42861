/* kernels_avx512 - the table of kernel functions (struct mr_cpu_ops of level.h) for AVX-512. Of its
 * 32 vector registers a matrix product uses up to 24 for sums, the rest for a row of the panels and
 * broadcast words. Products of 12 to 14 rows at once also fit, but need more row pointers than
 * there are general registers: they reach only 226 to 170 GFLOP/s a core, against 234 with 11 rows
 * (the peak is 235). */
#define LANES_BF16
#include "ops/cpu_kernels/lanes_avx512.h"

#define TILE_ROWS   11
#define TILE_ROWS_2 11
#define TILE_ROWS_4 6
#define TILE_ROWS_8 3

#include "ops/cpu_kernels/tile_body.h"

#include "ops/cpu_kernels/attend_body.h"
#include "ops/cpu_kernels/int8_body.h"
#include "ops/cpu_kernels/mixer_body.h"
#include "ops/cpu_kernels/search_body.h"

#define ATTEND attend_panels
#define QUANT  mr_quant_ops_avx512vnni
#define TABLE  mr_cpu_ops_avx512
#include "ops/cpu_kernels/table_body.h"
