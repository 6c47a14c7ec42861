/* level - the inner loops of the kernels: one constant table of functions for each instruction set.
 *
 * Panels: the right matrix of every product is stored in panels of 16 columns. A row of a panel has
 *         64 bytes, a 4-byte word for each column; one word of the left matrix is broadcast and
 *         multiplied with all of them. Depth is the dimension that the product sums over.
 *             bf16  [panel][depth / 2][column 16][2]     a word holds two neighbours in depth
 *             f32   [panel][depth][column 16]            a word holds one float
 *         Weights, K (columns are tokens) and V (columns are head dimensions) are stored this way.
 * Order:  an output adds its words from first to last in one accumulator, so tiles of every size
 *         give the same bits. The order inside a bf16 word is the CPU's, or first to last.
 * Files:  *_body.h are the loops, written once for vectors of 16 lanes. kernels_<level>.c compile
 *         them with lanes_<level>.h. ops/cpu_kernels/amx and ops/cpu_kernels/neon hold the rest.
 * Threads: any; the tables are constant. */
#ifndef MR_OPS_CPU_KERNELS_LEVEL_H
#define MR_OPS_CPU_KERNELS_LEVEL_H

#include "ops/cpu_kernels/kernels.h"
#include "ops/cpu_kernels/quant/quant.h"

#define MR_PANEL_COLUMNS 16u
#define MR_PANEL_BYTES   64u /* bytes of one row of a panel */

/* The matrix product c = a b. a: rows of 4-byte words; b: panels; c: floats, fully overwritten. */
struct mr_cpu_tile {
    const unsigned char *a;
    size_t a_stride_bytes;
    const unsigned char *b;
    size_t panel_bytes; /* bytes from the start of a panel of b to the start of the next */
    float *c;
    size_t c_stride; /* floats from one row of c to the next */
    uint32_t rows, panels;
    uint32_t panels_ahead;     /* panels from b on that may be prefetched for the caller; 0: none */
    const unsigned char *next; /* the caller's next bytes, prefetched for few rows; or NULL */
    uint32_t word_count;       /* words in a row of a: depth / 2 for bf16, depth for f32 */
};

/* Attention of query rows to one block of keys and values. Row r attends to the keys
 * [begin[r], end[r]) of the block, which may be none. */
struct mr_cpu_attend {
    const unsigned char *q;                /* [rows, dim], bf16 or f32 */
    const unsigned char *keys, *next_keys; /* next_keys: of the next block, or NULL */
    const unsigned char *values; /* NULL: the first value_dim numbers of the keys; not for AMX */
    /* [MR_BLOCK_TOKENS] bf16, one for each key and each value. Keys and values are then int8 in
     * rows of 16 bytes (kv_pool.h). Both NULL: keys and values are panels of the numbers of q. */
    const uint16_t *key_scales, *value_scales;
    size_t key_panel_bytes, value_panel_bytes;
    const uint32_t *begin, *end;
    /* A partial softmax: key j of a row has the weight 2^(score[j] * scale * log2(e) - top). */
    float *out; /* [rows, value_dim]: the sum of weights times values */
    float *sum; /* [rows]: the sum of the weights */
    float *top; /* [rows]: usually the largest exponent of the row, so that no weight overflows */
    uint32_t rows, dim, value_dim;
    float scale, softcap; /* softcap: tanh limit of the scores; 0: no limit */
    bool bf16;
};

/* K or V of one head of one block, to be quantized to int8. A group is the 16 tokens of a panel of
 * K, or the tokens that share a word of V; each token of a group has its own scale. Rows of a group
 * have 64 bytes. */
struct mr_cpu_int8 {
    unsigned char *rows;           /* first row of the first group of tokens, in the KV pool */
    size_t group_bytes, row_bytes; /* bytes from one group to the next, from one row to the next */
    uint32_t group_count, row_count;
    uint32_t token_count; /* tokens to convert; later tokens of the last group are treated as 0 */
    bool bf16, keys;      /* keys: K (columns are tokens); false: V (columns are dimensions) */
};

#define MR_CPU_NO_SCORE (-1e30f) /* value of `top` for a row that attends to no key */

/* Merges the partial softmax of one block (block_*) into that of the blocks before it. */
struct mr_cpu_fold {
    float *out, *top, *sum; /* shapes: out [rows, width], top [rows], sum [rows] */
    const float *block_out, *block_top, *block_sum;
    uint32_t rows, width; /* width: a multiple of 16 */
};

/* A histogram of logits by their distance from the largest. The bin position of x[i] is (top -
 * x[i]) * factor * MR_CPU_BINS_EACH; the weight of x[i] is exp((x[i] - top) * factor). A NaN has no
 * bin. A logit whose position is MR_CPU_BINS or more has no bin either; its weight is below
 * 1e-13. */
#define MR_CPU_BINS      2048u
#define MR_CPU_BINS_EACH 64.0f /* number of bins over which the weight falls by a factor of e */
struct mr_cpu_search {
    const float *x;
    uint32_t count;
    float top, factor; /* top: the largest logit; factor: 1 / temperature */
};
struct mr_cpu_candidate {
    uint32_t id;
    float logit, bin_position, weight;
};

struct mr_cpu_finish; /* ops/cpu_kernels/linear.h */
struct mr_cpu_ops {
    void (*tile_bf16)(const struct mr_cpu_tile *tile);
    void (*tile_f32)(const struct mr_cpu_tile *tile);
    void (*finish)(const struct mr_cpu_finish *finish);
    /* One row of mr_cpu_norm, and of mr_cpu_norm_add. */
    void (*norm_row)(const struct mr_cpu_norm *norm, const float *x, void *out);
    void (*norm_add_row)(const struct mr_cpu_norm *norm, const float *x, float scale,
                         float *residual);
    void (*attend)(const struct mr_cpu_attend *attend);
    void (*fold)(const struct mr_cpu_fold *fold);
    void (*softcap)(float *x, size_t count, float cap);
    /* out[i] = x[i] * factor, stored as bf16 or f32. */
    void (*convert)(const float *x, float factor, uint32_t count, bool bf16, void *out);
    /* Rotary embedding of one head in place: rotates each pair (head[i], head[i + half]), i <
     * half. */
    void (*rotate)(float *head, const float *cos, const float *sin, uint32_t half);
    /* Returns the index of the largest float, the lowest index among equals, never of a NaN; 0 when
     * all are NaN or -infinity. */
    uint32_t (*find_max)(const float *x, uint32_t count);
    /* Returns the sum of the weights of all logits, including those without a bin; a NaN adds 0. */
    double (*sum_exp)(const struct mr_cpu_search *search);
    /* For every logit that has a bin (bin position truncated to an integer) adds 1 to counts[bin]
     * and the logit's weight to weights[bin]. */
    void (*fill_bins)(const struct mr_cpu_search *search, uint32_t *counts, double *weights);
    /* Writes the logits whose bin position is below limit to out, in order of id; returns their
     * count. */
    uint32_t (*collect)(const struct mr_cpu_search *search, float limit,
                        struct mr_cpu_candidate *out);
    /* Writes the ids of the `wanted` largest floats in descending order, the lowest id first among
     * equals; returns how many: fewer if the other floats are NaN or -infinity. wanted <=
     * MR_LOGPROBS_MAX. */
    uint32_t (*find_top)(const float *x, uint32_t count, uint32_t wanted, uint32_t *ids);
    /* Convert K or V to and from int8 (kv_int8.c): all scales in bf16, then the rows in int8, group
     * by group. pack_int8 returns false when a number is infinite, NaN, or 2^127 or more. All
     * levels give the same bytes. */
    bool (*pack_int8)(const struct mr_cpu_int8 *half, unsigned char *out);
    void (*unpack_int8)(const struct mr_cpu_int8 *half, const unsigned char *in);
    /* Quantizes the K or V of one token in one head to int8, `count` a multiple of 16; returns the
     * scale in bf16: the largest magnitude / 127, rounded up. When a number is infinite, NaN, or
     * 2^127 or more, all become 0 and the scale NaN. All levels give the same bytes. */
    uint16_t (*quantize)(const float *x, uint32_t count, int8_t *out);
    const struct mr_cpu_mix_ops *mix; /* recurrent layers (mixer.h) */
    const struct mr_quant_ops *quant; /* weights of 4 to 8 bits */
};

/* Returns the table of functions of the level mr_cpu_level(wanted). */
const struct mr_cpu_ops *mr_cpu_ops_get(enum mr_cpu_level wanted);
/* Returns a table whose functions are those of mr_cpu_ops_get, except tile_bf16, attend and quant.
 * Cheap enough for a step: it never queries the processor for AMX or AVX-VNNI. */
const struct mr_cpu_ops *mr_cpu_row_ops_get(enum mr_cpu_level wanted);

/* A program has the scalar level and the levels of the architecture that it is built for. */
extern const struct mr_cpu_ops mr_cpu_ops_scalar, mr_cpu_ops_avx2, mr_cpu_ops_avxvnni,
    mr_cpu_ops_avx512f, mr_cpu_ops_avx512vnni, mr_cpu_ops_avx512, mr_cpu_ops_amx, mr_cpu_ops_neon,
    mr_cpu_ops_neon_bf16;

#endif
