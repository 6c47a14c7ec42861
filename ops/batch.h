/* batch - the rows of one step, and the address of one KV block: plain values that cross the border
 * of ops/. The caller fills them; the decoder and the KV groups read them.
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
    bool wants_logits;       /* of its last row */
    /* With window_slots (ops/model.h): like `blocks`, but slot ids, for the sliding-window layers;
     * only entries inside the rows' windows are read. */
    const uint32_t *slots;
};

struct mr_batch {
    const uint32_t *token_ids; /* [row_count] */
    uint32_t row_count;
    const struct mr_batch_sequence *sequences; /* in row order */
    uint32_t sequence_count;
};

struct mr_kv_place {
    uint32_t block;
    uint32_t slot;  /* of the sliding-window layers; ignored without window_slots (ops/model.h) */
    uint32_t first; /* first token to export or import, a multiple of 16; _copy ignores it */
};

#endif
