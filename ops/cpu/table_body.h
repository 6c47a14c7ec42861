/* table_body - the operations of one instruction set as the table level.h declares, named TABLE by
 * the file that includes this, after the bodies that define them. ATTEND: its attention. */
const struct mr_cpu_ops TABLE = {
    .tile_bf16 = tile_bf16,
    .tile_f32 = tile_f32,
    .finish = rows_finish,
    .norm_row = rows_norm,
    .attend = ATTEND,
    .fold = rows_fold,
    .convert = rows_convert,
    .rotate = rows_rotate,
    .find_max = search_find_max,
    .sum_exp = search_sum_exp,
    .fill_bins = search_fill_bins,
    .collect = search_collect,
    .find_top = search_find_top,
    .pack_int8 = int8_pack,
    .unpack_int8 = int8_unpack,
};
