/* weight_rows - the rows of a merged linear, drawn from the tensors of a file: one share after the
 * other (q, k, v) or in turn (gate, up), each brought into Hugging Face's order.
 *
 * GGUF keeps q and k of the llama family in the order of rotary pairs: inside a head of d rows, row
 * 2i is Hugging Face's i and row 2i + 1 its i + d/2. Here that order is undone, so that everything
 * behind (rope, KV blocks, stored KV) has one layout.
 *
 * Threads: reading is pure; any thread. Memory: borrows the tensors. */
#ifndef MR_OPS_WEIGHT_ROWS_H
#define MR_OPS_WEIGHT_ROWS_H

#include "ops/files/tensor_table.h"

#define MR_WEIGHT_SHARES_MAX 3u

struct mr_weight_share {
    const struct mr_stored_tensor *weight; /* [row_count, width] */
    const struct mr_stored_tensor *bias;   /* [row_count] or NULL */
    uint32_t row_count;
    uint32_t pair_dim; /* rows of a head stored in rotary pairs; 0: in plain order */
};

struct mr_weight_rows {
    struct mr_weight_share shares[MR_WEIGHT_SHARES_MAX];
    uint32_t share_count;
    bool alternate; /* shares of equal row_count take turns */
};

uint32_t mr_weight_rows_count(const struct mr_weight_rows *rows);
/* An mr_cpu_row_source; context is the struct mr_weight_rows. */
void mr_weight_rows_read(void *context, uint32_t row, float *out);
/* The biases in the same order, new; a share without one counts as zeros; *out is NULL when none
 * has one. MR_NOMEM. */
enum mr_status mr_weight_rows_bias(const struct mr_weight_rows *rows, float **out,
                                   struct mr_error *err);

#endif
