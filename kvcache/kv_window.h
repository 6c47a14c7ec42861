/* kv_window - KV memory of sliding-window layers: which blocks have slots, for which sequences.
 *
 * A sliding-window layer attends to the last window_tokens tokens only. The KV of these layers lies
 * in slots (window_pool.h), fewer than there are blocks. A sequence holds slots for the blocks that
 * its next step reads and writes, which the window bounds; it releases the slots of blocks that the
 * window has passed, and the pool reuses the slot released longest ago. A cached prefix is a hit
 * only if the blocks of its last window still have their slots. Before a sequence runs, _reserve
 * sets aside the most slots it can hold at a time, so that _slide, before each of its steps, cannot
 * fail. Without sliding-window layers there is no mr_kv_window: table->window is NULL, _reserve
 * returns true and _slide does nothing.
 *
 * Owner:  engine thread. Memory: all in _create. Errors: _create MR_BAD_CONFIG, MR_NOMEM; _reserve
 *         false. Invariant: the sum of reservations <= slot count, checked by mr_kv_window_check().
 */
#ifndef MR_KVCACHE_KV_WINDOW_H
#define MR_KVCACHE_KV_WINDOW_H

#include "kvcache/block_table.h"

struct mr_kv_window;

/* ---- for the engine ---- */

/* Reserves slots for a sequence of at most token_count tokens until its table is cleared: enough to
 * run (a window and a step), or, with `all`, one slot for every block, because the KV of all blocks
 * is about to be loaded; _slide returns the surplus when the sequence has passed most blocks.
 * False: too few slots are unreserved now; nothing changed. */
bool mr_kv_window_reserve(struct mr_block_table *table, uint32_t token_count, bool all);
/* Call before tokens [computed, end) are computed: releases the slots of blocks that the window has
 * passed and holds slots for the blocks up to token `end`. The table must have blocks up to `end`
 * and enough reserved slots (asserted). */
void mr_kv_window_slide(struct mr_block_table *table, uint32_t computed, uint32_t end);
/* Most blocks that a step of step_tokens tokens reads and writes in a layer with this window. */
uint32_t mr_kv_window_blocks(uint32_t window_tokens, uint32_t step_tokens);

/* ---- for kv_cache.c ---- */

struct mr_kv_window_options {
    uint32_t slot_count, window_tokens;
    uint32_t step_tokens;         /* most tokens of one sequence in one step */
    uint32_t sequence_tokens_max; /* tokens of the longest sequence */
    uint32_t block_count;         /* blocks in the pool */
    struct mr_block_pool *pool;   /* borrowed; knows which blocks the prefix index contains */
};

enum mr_status mr_kv_window_create(struct mr_kv_window **out,
                                   const struct mr_kv_window_options *options,
                                   struct mr_error *err);
/* window may be NULL. */
void mr_kv_window_destroy(struct mr_kv_window *window);

/* Index of the first block that the token at this position attends to. */
uint32_t mr_kv_window_first_block(const struct mr_kv_window *window, uint32_t position);
/* The slot of the block; UINT32_MAX: the block has none. */
uint32_t mr_kv_window_slot(const struct mr_kv_window *window, mr_block_id id);
/* Adds a reference to the slot of a block whose KV is about to be copied to another block. */
void mr_kv_window_hold(struct mr_kv_window *window, mr_block_id id);
void mr_kv_window_release(struct mr_kv_window *window, mr_block_id id);
/* Frees the slot, if there is one, of a block that is about to be reused. window may be NULL. */
void mr_kv_window_drop(struct mr_kv_window *window, mr_block_id id);
/* Releases all window slots that the table holds. */
void mr_kv_window_release_all(struct mr_block_table *table);
/* Ends the table's reservation of slots. */
void mr_kv_window_unreserve(struct mr_block_table *table);
/* After a prefix lookup: holds the slots of the found blocks that the next token, at `position`,
 * attends to; every such block has a slot. */
void mr_kv_window_hold_matched(struct mr_block_table *table, uint32_t position);
/* Block i of the table is about to be replaced by block `to`, which holds the same tokens: moves
 * the slot of block i to `to` if `to` has none. */
void mr_kv_window_replace(struct mr_block_table *table, uint32_t i, mr_block_id to);

struct mr_kv_window_stats {
    /* counts of slots; those neither free nor cached are held */
    uint32_t slot_count, free_count, cached_count;
};
/* window may be NULL: all zero. */
struct mr_kv_window_stats mr_kv_window_stats(const struct mr_kv_window *window);
/* Asserts that slots, references and reservations match the tables in use; O(blocks). window may be
 * NULL. */
void mr_kv_window_check(const struct mr_kv_window *window, const struct mr_block_tables *tables);

#endif
