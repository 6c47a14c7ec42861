/* weight_rows - the rows of a linear layer, read from the tensors of a file. A share is the set of
 * rows that one tensor contributes. Shares follow each other (q, k, v) or alternate row by row
 * (gate, up).
 *
 * Order:   GGUF stores the rows of q and k of some families in pair order: in a head of d rows, row
 *          2i is Hugging Face's row i, and row 2i + 1 is Hugging Face's row i + d/2. This module
 *          restores Hugging Face's order, so that rope, KV blocks and stored KV have one layout for
 *          both file formats.
 * Padding: heads whose size is not a multiple of 16 get rows of zeros (q, k, v) or columns of zeros
 *          (the layer after attention), up to the next multiple.
 *
 * Threads: any; reading has no side effect. Memory: borrows the tensors. */
#ifndef MR_OPS_WEIGHTS_WEIGHT_ROWS_H
#define MR_OPS_WEIGHTS_WEIGHT_ROWS_H

#include "ops/cpu_kernels/quant/quant.h"
#include "ops/files/tensor_table.h"

#define MR_WEIGHT_SHARES_MAX 4u

/* The file stores heads of `size` numbers, which are packed as `padded` numbers; 0, 0: no heads. */
struct mr_head_padding {
    uint32_t size, padded;
};

/* The share has the first `take` rows of every `size` rows of the tensor; 0, 0: all rows. */
struct mr_row_groups {
    uint32_t size, take;
};

struct mr_weight_share {
    const struct mr_stored_tensor *weight; /* rows of the layer's width, without padded columns */
    const struct mr_stored_tensor *bias;   /* one number for each row of weight, or NULL for none */
    uint32_t row_count;                    /* rows in the layer, including padding */
    /* The first pair_dim rows of each head of pair_head rows are in pair order, as above; 0, 0:
     * none. */
    uint32_t pair_dim, pair_head;
    uint64_t first_row; /* row 0 of the share is this row of weight, and this number of bias */
    struct mr_head_padding rows;
    struct mr_row_groups groups;
    float scale, bias_scale; /* factors of the weights and of the biases; 0 means 1 */
    /* NULL, or the matrix from which rows are read instead of `weight`, column by column:
     * [width][stride], from the share's first column on. */
    const float *transposed;
    uint32_t stride;
};

struct mr_weight_rows {
    struct mr_weight_share shares[MR_WEIGHT_SHARES_MAX];
    uint32_t share_count;
    /* true: rows are taken from the shares in turn, all of the same row_count; false: share after
     * share. */
    bool alternate;
    uint32_t width; /* numbers of a row, including padding */
    struct mr_head_padding columns;
};

uint32_t mr_weight_rows_count(const struct mr_weight_rows *rows);
/* Writes row `row` of the layer to out as floats: [width]. Usable as an mr_row_source
 * (ops/backend/step.h); context: the struct mr_weight_rows. */
void mr_weight_rows_read(void *context, uint32_t row, float *out);
/* Fills in the bands of a layer that computes with the integers of the files, and returns their
 * number. A band is a run of neighbouring rows of one storage. Returns 0 when the layer cannot: a
 * storage has no integer format, columns are padded or transposed, weights have a scale, or rows of
 * two storages alternate. */
uint32_t mr_weight_rows_bands(const struct mr_weight_rows *rows,
                              struct mr_quant_band bands[MR_QUANT_BANDS_MAX]);
/* Returns the bytes of row `row` in the files; NULL for a row of padding. Usable as an mr_row_bytes
 * (ops/backend/step.h) for rows with bands; context: the struct mr_weight_rows. */
const unsigned char *mr_weight_rows_bytes(void *context, uint32_t row);
/* Sets *out to a new array of the biases, in the order of the layer's rows, which the caller frees:
 * zeros for a tensor without bias, NULL when no tensor has a bias. Errors: MR_NOMEM. */
enum mr_status mr_weight_rows_bias(const struct mr_weight_rows *rows, float **out,
                                   struct mr_error *err);

#endif
