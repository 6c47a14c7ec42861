/* weight_rows - the rows of a merged linear layer, read from the tensors of a file. A share is the
 * rows that one tensor contributes. Shares follow each other (q, k, v) or alternate row by row
 * (gate, up).
 *
 * GGUF stores the rows of q and k of the llama family in pair order: in a head of d rows, row 2i is
 * Hugging Face's row i, and row 2i + 1 is Hugging Face's row i + d/2. This module restores Hugging
 * Face's order, so that rope, KV blocks and stored KV have one layout for both file formats.
 *
 * Threads: any; reading has no side effect. Memory: borrows the tensors. */
#ifndef MR_OPS_WEIGHT_ROWS_H
#define MR_OPS_WEIGHT_ROWS_H

#include "ops/files/tensor_table.h"

#define MR_WEIGHT_SHARES_MAX 3u

struct mr_weight_share {
    const struct mr_stored_tensor *weight; /* [row_count, width] */
    const struct mr_stored_tensor *bias;   /* [row_count], or NULL for no bias */
    uint32_t row_count;
    uint32_t pair_dim; /* head size if the tensor's rows are in pair order, as above; else 0 */
};

struct mr_weight_rows {
    struct mr_weight_share shares[MR_WEIGHT_SHARES_MAX];
    uint32_t share_count;
    /* true: rows are taken from the shares in turn, all of the same row_count; false: share after
     * share. */
    bool alternate;
};

uint32_t mr_weight_rows_count(const struct mr_weight_rows *rows);
/* Writes row `row` of the merged layer to out as floats. Usable as an mr_cpu_row_source
 * (ops/cpu/kernels.h); context: the struct mr_weight_rows. */
void mr_weight_rows_read(void *context, uint32_t row, float *out);
/* Sets *out to a new array of the biases, in the order of the merged rows, which the caller frees:
 * zeros for a tensor without bias, NULL when no tensor has a bias. Errors: MR_NOMEM. */
enum mr_status mr_weight_rows_bias(const struct mr_weight_rows *rows, float **out,
                                   struct mr_error *err);

#endif
