/* weight_repack - writes weights of 4 bits of quantized Hugging Face folders (AWQ, GPTQ,
 * compressed-tensors) as blocks of Q4_1, so that layers compute with the integers of the files. A
 * group of the folder becomes one or several blocks, so that a weight takes 5 bits instead of about
 * 4.2.
 *
 * Threads: one caller; the rows are converted by all threads of ops/cpu_kernels/parallel.h.
 * Memory:  owns the blocks, which are freed when the layer has been packed. */
#ifndef MR_OPS_WEIGHTS_WEIGHT_REPACK_H
#define MR_OPS_WEIGHTS_WEIGHT_REPACK_H

#include "ops/weights/weight_rows.h"

struct mr_weight_repack {
    struct mr_stored_tensor tensors[MR_WEIGHT_SHARES_MAX];
    unsigned char *blocks[MR_WEIGHT_SHARES_MAX];
};

/* True when the shapes of all shares allow blocks of Q4_1. */
bool mr_weight_repack_fits(const struct mr_weight_rows *rows);
/* Replaces the tensors of all shares by blocks of Q4_1, which `repack` owns. Leaves `rows`
 * unchanged if the tensor of a share does not fit or has a scale that is not a half
 * (ops/numbers/quantized.h), or if columns are padded. Read the biases of `rows` before the call,
 * which loses their first row. Errors: MR_NOMEM. Call _end in any case. */
enum mr_status mr_weight_repack_begin(struct mr_weight_repack *repack, struct mr_weight_rows *rows,
                                      struct mr_error *err);
void mr_weight_repack_end(struct mr_weight_repack *repack);

#endif
