/* level - the inner loops that exist once per instruction set, as one constant table a level.
 *
 * Panels: every matrix that stands on the right of a product is stored in panels of 16 columns, so
 *         that one 64-byte row of a panel meets one broadcast word of the left matrix:
 *             bf16  [panel][depth / 2][column 16][2]     a word is two neighbours in depth
 *             f32   [panel][depth][column 16]            a word is one float
 *         Weights, K (columns are tokens) and V (columns are head dimensions) are all stored so.
 * Order:  an output sums its words from first to last in one chain, whatever the tile: tiles of
 *         every size give the same bits. bf16 pairs add in the order the level's multiply has.
 * Files:  the loops are written once over 16 lanes (tile_body.h, attend_body.h, rows_body.h,
 *         search_body.h, int8_body.h) and compiled in kernels_avx512.c, kernels_avx2.c,
 *         kernels_scalar.c with lanes_<level>.h; kernels_amx.c has a product and an attention of
 *         its own for bf16 (tile_amx_body.h, attend_amx_body.h).
 * Owner:  none, constant. Threads: any. */
#ifndef MR_OPS_CPU_LEVEL_H
#define MR_OPS_CPU_LEVEL_H

#include "ops/cpu/kernels.h"

#define MR_PANEL_COLUMNS 16u
#define MR_PANEL_BYTES   64u /* of one word of depth */

/* c = a b. a: rows of words; b: panels; c: floats, fully overwritten. */
struct mr_cpu_tile {
    const unsigned char *a;
    size_t a_stride_bytes;
    const unsigned char *b;
    size_t panel_bytes; /* from one panel to the next */
    float *c;
    size_t c_stride; /* floats */
    uint32_t rows, panels;
    uint32_t panels_ahead; /* panels from b on that are worth prefetching; 0 none */
    uint32_t word_count;   /* depth: in_size / 2 for bf16, in_size for f32 */
};

/* What becomes of the sums of a linear layer. */
struct mr_cpu_finish {
    const float *c;
    size_t c_stride;
    const float *bias; /* of the first column, or NULL */
    void *out;         /* of the first column */
    size_t out_stride; /* elements */
    uint32_t rows, columns;
    enum mr_cpu_epilogue epilogue;
    bool bf16;
};

/* Rows of queries against one block of keys and values. Row r sees the keys [begin[r], end[r]) of
 * the block; it may see none. */
struct mr_cpu_attend {
    const unsigned char *q; /* [rows, dim], bf16 or f32 */
    const unsigned char *keys, *values;
    size_t key_panel_bytes, value_panel_bytes;
    const uint32_t *begin, *end;
    float *out; /* [rows, dim]: the sum of weights times values */
    float *sum; /* [rows]: of the weights */
    float *top; /* [rows]: the score, times scale in powers of two, that has weight 1 */
    uint32_t rows, dim;
    float scale, softcap; /* softcap 0: none */
    bool bf16;
};

/* K or V of one head of one block, as groups of tokens that have a row of scales each: of K the 16
 * tokens of a panel, of V the tokens that share a word. The rows of a group have 64 bytes each. */
struct mr_cpu_int8 {
    unsigned char *rows;           /* the first of the first group, in the pool */
    size_t group_bytes, row_bytes; /* in the pool, from one to the next */
    uint32_t group_count, row_count;
    uint32_t token_count; /* of all groups; what stands behind the last one counts as 0 */
    bool bf16, keys;      /* keys: a column is a token; else a column is a dimension */
};

#define MR_CPU_NO_SCORE (-1e30f) /* top of a row that has seen no key */

/* Joins the partial result of a block to that of the blocks before it. */
struct mr_cpu_fold {
    float *out, *top, *sum; /* [rows, width], [rows], [rows] */
    const float *block_out, *block_top, *block_sum;
    uint32_t rows, width; /* width: a multiple of 16 */
};

/* Logits seen from their largest: the place of x[i] is (top - x[i]) * factor * MR_CPU_BINS_EACH,
 * its weight exp((x[i] - top) * factor). What lies at or beyond the last bin (a weight below
 * 1e-13), and NaN, has no place. */
#define MR_CPU_BINS      2048u
#define MR_CPU_BINS_EACH 64.0f /* bins for each power of e */
struct mr_cpu_search {
    const float *x;
    uint32_t count;
    float top, factor; /* factor: one over the temperature */
};
struct mr_cpu_candidate {
    uint32_t id;
    float logit, place, weight;
};

struct mr_cpu_ops {
    void (*tile_bf16)(const struct mr_cpu_tile *tile);
    void (*tile_f32)(const struct mr_cpu_tile *tile);
    void (*finish)(const struct mr_cpu_finish *finish);
    void (*norm_row)(const struct mr_cpu_norm *norm, const float *x, void *out);
    void (*attend)(const struct mr_cpu_attend *attend);
    void (*fold)(const struct mr_cpu_fold *fold);
    /* out[i] = x[i] * factor, in bf16 or f32. */
    void (*convert)(const float *x, float factor, uint32_t count, bool bf16, void *out);
    /* Rotates the pairs (i, i + half), i < half, of one head in place. */
    void (*rotate)(float *head, const float *cos, const float *sin, uint32_t half);
    /* Index of the largest of count floats, the lowest among equals, NaN never; 0 when all are NaN
     * or -infinity. */
    uint32_t (*find_max)(const float *x, uint32_t count);
    /* Sum of the weights, places or not; NaN counts as nothing. */
    double (*sum_exp)(const struct mr_cpu_search *search);
    /* Adds every number that has a place to its bin, the whole part of the place. */
    void (*fill_bins)(const struct mr_cpu_search *search, uint32_t *counts, double *weights);
    /* The numbers whose place is below limit, by rising id; returns their count. */
    uint32_t (*collect)(const struct mr_cpu_search *search, float limit,
                        struct mr_cpu_candidate *out);
    /* The `wanted` largest, largest first, the lowest id first among equals; returns how many there
     * are that are not NaN or -infinity. wanted <= MR_LOGPROBS_MAX. */
    uint32_t (*find_top)(const float *x, uint32_t count, uint32_t wanted, uint32_t *ids);
    /* To and from the form of kv_int8.c: all scales in bf16, then the rows in int8, group by group.
     * False: a number is not finite, or nearly so. Every level gives the same bytes. */
    bool (*pack_int8)(const struct mr_cpu_int8 *half, unsigned char *out);
    void (*unpack_int8)(const struct mr_cpu_int8 *half, const unsigned char *in);
};

/* The table of mr_cpu_level(wanted). */
const struct mr_cpu_ops *mr_cpu_ops_get(enum mr_cpu_level wanted);

extern const struct mr_cpu_ops mr_cpu_ops_scalar, mr_cpu_ops_avx2, mr_cpu_ops_avx512,
    mr_cpu_ops_amx;

#endif
