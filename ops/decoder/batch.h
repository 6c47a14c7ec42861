/* batch - the input of one forward pass: its rows (one token each), sequence by sequence; of a
 * step, which is a forward pass with draws from its logits; and of operations on the KV of a block.
 * Plain values that the caller of ops/ fills in, and that the decoder (ops/decoder/decoder.h) and
 * the KV pool (ops/decoder/kv_groups.h) read.
 *
 * Memory: every pointer is borrowed for the duration of the call. */
#ifndef MR_OPS_DECODER_BATCH_H
#define MR_OPS_DECODER_BATCH_H

#include "ops/sampling/sample.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_STEPS_AHEAD_MAX 2u
#define MR_ROW_KNOWN       UINT32_MAX

/* Rows [row_begin, row_begin + row_count) of the batch belong to this sequence. They are the
 * sequence's positions [context_tokens, context_tokens + row_count). */
struct mr_batch_sequence {
    uint32_t row_begin, row_count;
    uint32_t context_tokens; /* leading tokens of the sequence whose KV is in `blocks` already */
    const uint32_t *blocks;  /* block ids covering context_tokens + row_count tokens, in order */
    /* Compute the logits of the sequence's last logit_rows rows; 0: of none. The sum of all
     * logit_rows of a step plus its number of sequences with hidden_rows is at most the model's
     * sequences_max. */
    uint32_t logit_rows;
    /* Like `blocks`, with the ids of the slots that hold the KV of sliding-window layers; used if
     * the model has window_slots (ops/model/model.h). Only slots inside the sliding windows of the
     * rows are read. */
    const uint32_t *slots;
    /* Keep the hidden states, after the final norm, of the sequence's last hidden_rows rows. Such a
     * sequence has no logit_rows, and the sequences with hidden_rows come last. */
    uint32_t hidden_rows;
    /* Changes the layers for all rows of the sequence; NULL: none. Borrowed until the step is
     * collected. Its KV is of use to sequences with the same adapter only. */
    const struct mr_adapter *adapter;
    /* Slot of the model's state pool that has the state after context_tokens tokens; used if the
     * model has state_slots (ops/model/model.h). The step moves the state past the rows. */
    uint32_t state;
    bool hidden_first; /* keep the first row instead; hidden_rows is 1 */
    /* In a model with both_ways (struct mr_model_config) a sequence has all its rows in one step:
     * context_tokens is 0. Its tokens from second_begin on have token type 1; 0: none has. */
    uint32_t second_begin;
};

struct mr_batch {
    const uint32_t *token_ids; /* [row_count] */
    uint32_t row_count;
    const struct mr_batch_sequence *sequences; /* sequences in the order of their rows */
    uint32_t sequence_count;
};

/* A step to launch. All pointers are borrowed for the call of `launch`, except `samples`. */
struct mr_model_step {
    const struct mr_batch *batch; /* row_count 0: the step only draws */
    /* [batch->row_count] the sampling row of the previously launched step whose token is the input
     * of this row of the batch; MR_ROW_KNOWN: the input is in batch->token_ids. NULL: all inputs
     * are there. */
    const uint32_t *fed_by;
    /* [sample_count] When the sequence of a row has a fed token, the last id of the row's `history`
     * is not known yet, so the row has no penalties, bad words, mask or suppressed ids. */
    const struct mr_sample_row *rows;
    uint32_t sample_count;
    /* [sample_count] the caller's: the results of `rows`, complete when `collect` has returned */
    struct mr_sample *samples;
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
