/* window_pool - which memory slot of the sliding-window layers belongs to which KV block. Metadata
 * only: no tensors.
 *
 * Layers that attend to the last W tokens only need the KV of few blocks of a sequence. Their KV
 * lies in separate slots, fewer than there are blocks, so a block may have a slot or none. A slot
 * is FREE, HELD (references > 0) or CACHED (unreferenced, but its block may be found again). When
 * no slot is FREE, _hold reuses the CACHED slot that was released longest ago, and its block has no
 * slot then.
 *
 * Owner:  engine thread. Memory: all of it in _create. Errors: only _create and _hold can fail;
 *         everything else asserts.
 * Invariant: free + cached + held == slot_count, checked by mr_window_pool_check(). */
#ifndef MR_KVCACHE_WINDOW_POOL_H
#define MR_KVCACHE_WINDOW_POOL_H

#include "codec/status.h"
#include "kvcache/block_pool.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_SLOT_NONE UINT32_MAX

struct mr_window_pool;

enum mr_status mr_window_pool_create(struct mr_window_pool **out, uint32_t slot_count,
                                     uint32_t block_count, struct mr_error *err);
/* pool may be NULL. */
void mr_window_pool_destroy(struct mr_window_pool *pool);

/* The block's window slot, in [0, slot_count); MR_SLOT_NONE when the block has none. */
uint32_t mr_window_pool_slot(const struct mr_window_pool *pool, mr_block_id id);
/* Adds a reference to the block's slot; a block without a slot gets one. False: every slot is
 * HELD. */
bool mr_window_pool_hold(struct mr_window_pool *pool, mr_block_id id);
/* Removes a reference from the block's slot; with none left the slot is CACHED (as the newest) if
 * cache is true, else FREE. */
void mr_window_pool_release(struct mr_window_pool *pool, mr_block_id id, bool cache);
/* Moves the slot of block `from`, with the slot's references, to block `to`, which must have no
 * slot. */
void mr_window_pool_move(struct mr_window_pool *pool, mr_block_id from, mr_block_id to);
/* Frees the slot, if there is one, of a block that is about to be reused. The slot must not be
 * HELD. */
void mr_window_pool_drop(struct mr_window_pool *pool, mr_block_id id);

/* Number of references to the block's slot; 0 if the block has none. */
uint32_t mr_window_pool_references(const struct mr_window_pool *pool, mr_block_id id);
uint32_t mr_window_pool_slot_count(const struct mr_window_pool *pool);
uint32_t mr_window_pool_free(const struct mr_window_pool *pool);
uint32_t mr_window_pool_cached(const struct mr_window_pool *pool);
/* Asserts that lists and counts are right, and that a slot and its block refer to each other. */
void mr_window_pool_check(const struct mr_window_pool *pool);

#endif
