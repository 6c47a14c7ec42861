/* batch - the input of one forward pass: its rows (one token each), sequence by sequence; and where
 * the KV of a block is stored. Plain values that the caller of ops/ fills, and that the decoder
 * (ops/decoder.h) and the KV pool (ops/kv_groups.h) read.
 *
 * Memory: every pointer is borrowed for the duration of the call. */
#ifndef MR_OPS_BATCH_H
#define MR_OPS_BATCH_H

#include <stdint.h>

/* Rows [row_begin, row_begin + row_count) of the batch belong to this sequence. They are the
 * sequence's positions [context_tokens, context_tokens + row_count). */
struct mr_batch_sequence {
    uint32_t row_begin, row_count;
    uint32_t context_tokens; /* leading tokens of the sequence whose KV is in `blocks` already */
    const uint32_t *blocks;  /* block ids covering context_tokens + row_count tokens, in order */
    /* compute the logits of the sequence's last logit_rows rows; 0: of none. All logit_rows of a
     * step, and its sequences with hidden_rows, are at most the model's sequences_max. */
    uint32_t logit_rows;
    /* Like `blocks`, with the ids of the slots that hold the KV of sliding-window layers; used if
     * the model has window_slots (ops/model.h). Only slots inside the sliding windows of the rows
     * are read. */
    const uint32_t *slots;
    /* Keep the hidden states, after the final norm, of the sequence's last hidden_rows rows; of a
     * sequence without logit_rows. The sequences with hidden_rows come last. */
    uint32_t hidden_rows;
};

struct mr_batch {
    const uint32_t *token_ids; /* [row_count] */
    uint32_t row_count;
    const struct mr_batch_sequence *sequences; /* sequences in the order of their rows */
    uint32_t sequence_count;
};

/* Where the KV of one block is stored. */
struct mr_kv_place {
    uint32_t block;
    /* Holds the KV of sliding-window layers; ignored if the model has no window_slots. */
    uint32_t slot;
    /* Index within the block of the first token to export or import; a multiple of 16. */
    uint32_t first;
};

#endif
