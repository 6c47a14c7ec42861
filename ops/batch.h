/* batch - the rows of one step, and the address of a KV block: plain values that the caller of ops/
 * fills, and that the decoder and the KV groups read.
 *
 * Memory: every pointer is borrowed for the duration of the call. */
#ifndef MR_OPS_BATCH_H
#define MR_OPS_BATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Rows [row_begin, row_begin + row_count) of the batch belong to this sequence, at positions
 * [context_tokens, context_tokens + row_count). */
struct mr_batch_sequence {
    uint32_t row_begin, row_count;
    uint32_t context_tokens; /* tokens whose KV is in the blocks already */
    const uint32_t *blocks;  /* block ids covering context_tokens + row_count tokens, in order */
    bool wants_logits;       /* true: compute the logits of its last row */
    /* If the model has window_slots (ops/model.h): like `blocks`, but the slot ids for
     * sliding-window layers. Only the entries inside the rows' windows are read. */
    const uint32_t *slots;
};

struct mr_batch {
    const uint32_t *token_ids; /* [row_count] */
    uint32_t row_count;
    const struct mr_batch_sequence *sequences; /* in row order */
    uint32_t sequence_count;
};

/* Where a block keeps its KV. */
struct mr_kv_place {
    uint32_t block;
    uint32_t slot;  /* for sliding-window layers; ignored if the model has no window_slots */
    uint32_t first; /* first token to export or import, a multiple of 16 */
};

#endif
