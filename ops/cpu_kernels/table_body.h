/* table_body - defines the table of kernel functions (struct mr_cpu_ops of level.h) of one CPU
 * level. Needs, defined before it is included: TABLE, the name of the table; ATTEND, its attention
 * function; QUANT, its functions for weights of 4 to 8 bits; and all functions of the table. */
const struct mr_cpu_ops TABLE = {
    .tile_bf16 = tile_bf16,
    .tile_f32 = tile_f32,
    .finish = rows_finish,
    .norm_row = rows_norm,
    .norm_add_row = rows_norm_add,
    .attend = ATTEND,
    .fold = rows_fold,
    .softcap = rows_softcap,
    .convert = rows_convert,
    .rotate = rows_rotate,
    .find_max = search_find_max,
    .sum_exp = search_sum_exp,
    .fill_bins = search_fill_bins,
    .collect = search_collect,
    .find_top = search_find_top,
    .pack_int8 = int8_pack,
    .unpack_int8 = int8_unpack,
    .quantize = int8_quantize,
    .mix = &mix_ops,
    .quant = &QUANT,
};
