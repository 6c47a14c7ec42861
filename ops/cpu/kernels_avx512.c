/* kernels_avx512 - level.h over lanes_avx512.h. 32 registers: 28 sums, the rest for two rows of
 * panels and a broadcast. */
#include "ops/cpu/lanes_avx512.h"

#define TILE_ROWS   14
#define TILE_ROWS_2 14
#define TILE_ROWS_4 6
#define TILE_ROWS_8 3

#include "ops/cpu/rows_body.h"
#include "ops/cpu/tile_body.h"

const struct mr_cpu_ops mr_cpu_ops_avx512 = {
    .tile_bf16 = tile_bf16,
    .tile_f32 = tile_f32,
    .finish = rows_finish,
    .norm_row = rows_norm,
    .softmax = rows_softmax,
    .fold = rows_fold,
    .convert = rows_convert,
    .find_max = rows_find_max,
    .sum_exp = rows_sum_exp,
};
