/* kernels_scalar - level.h over lanes_scalar.h. Whatever the compiler makes of it. */
#include "ops/cpu/lanes_scalar.h"

#define TILE_ROWS   4
#define TILE_ROWS_2 1
#define TILE_ROWS_4 0
#define TILE_ROWS_8 0

#include "ops/cpu/rows_body.h"
#include "ops/cpu/search_body.h"
#include "ops/cpu/tile_body.h"

const struct mr_cpu_ops mr_cpu_ops_scalar = {
    .tile_bf16 = tile_bf16,
    .tile_f32 = tile_f32,
    .finish = rows_finish,
    .norm_row = rows_norm,
    .softmax = rows_softmax,
    .fold = rows_fold,
    .convert = rows_convert,
    .rotate = rows_rotate,
    .find_max = search_find_max,
    .sum_exp = search_sum_exp,
    .fill_bins = search_fill_bins,
    .collect = search_collect,
    .find_top = search_find_top,
};
