/* table_body - defines TABLE, the functions of one instruction set (struct mr_quant_ops). Needs
 * QUANT_ALL, the product, which is compiled once for each format. Optional: QUANT_ROWS, with
 * QUANT_FEWER as the product of fewer rows than that; QUANT_PACK, the function that packs
 * weights. */
#ifndef QUANT_PACK
#define QUANT_PACK mr_quant_pack
#endif
#define QUANT_FORMAT(name)                                                                         \
    static void quant_##name(const struct mr_quant_tile *tile)                                     \
    {                                                                                              \
        QUANT_ALL(tile, mr_quant_shapes[MR_QUANT_##name]);                                         \
    }
QUANT_FORMAT(INT8)
QUANT_FORMAT(Q8_0)
QUANT_FORMAT(Q4_0)
QUANT_FORMAT(Q4_1)
QUANT_FORMAT(Q5_0)
QUANT_FORMAT(Q5_1)
QUANT_FORMAT(Q4_K)
QUANT_FORMAT(Q5_K)
QUANT_FORMAT(Q6_K)
QUANT_FORMAT(IQ4_NL)
QUANT_FORMAT(IQ4_XS)
QUANT_FORMAT(MXFP4)

static void quant_tile(const struct mr_quant_tile *tile)
{
    static void (*const formats[MR_QUANT_COUNT])(const struct mr_quant_tile *) = {
        [MR_QUANT_INT8] = quant_INT8,     [MR_QUANT_Q8_0] = quant_Q8_0,
        [MR_QUANT_Q4_0] = quant_Q4_0,     [MR_QUANT_Q4_1] = quant_Q4_1,
        [MR_QUANT_Q5_0] = quant_Q5_0,     [MR_QUANT_Q5_1] = quant_Q5_1,
        [MR_QUANT_Q4_K] = quant_Q4_K,     [MR_QUANT_Q5_K] = quant_Q5_K,
        [MR_QUANT_Q6_K] = quant_Q6_K,     [MR_QUANT_IQ4_NL] = quant_IQ4_NL,
        [MR_QUANT_IQ4_XS] = quant_IQ4_XS, [MR_QUANT_MXFP4] = quant_MXFP4,
    };
#ifdef QUANT_ROWS
    if (tile->rows < QUANT_ROWS) {
        QUANT_FEWER(tile);
        return;
    }
#endif
    formats[tile->format](tile);
}

const struct mr_quant_ops TABLE = {.row = quant_row, .tile = quant_tile, .pack = QUANT_PACK};
