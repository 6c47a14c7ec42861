/* window_pool - which memory of the sliding-window layers belongs to which KV block. Metadata only.
 *
 * Layers that see the last W tokens only need the KV of few blocks of a sequence, so theirs lies in
 * slots of their own, fewer than there are blocks. A block may have a slot or not. A slot is FREE,
 * NEEDED (by so many holders) or CACHED: nobody needs it now, and a prefix that ends near it may
 * again; a taker that finds none free gets the CACHED slot let go longest ago, and its block goes
 * on without one. free + cached + needed == slot_count always.
 *
 * Owner:  engine thread. Memory: all of it in _create. Errors: only _create and _need can fail;
 *         everything else asserts. */
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

/* The block's slot, in [0, slot_count); MR_SLOT_NONE when it has none. */
uint32_t mr_window_pool_slot(const struct mr_window_pool *pool, mr_block_id id);
/* One holder more needs the block's slot, which it gets if it has none. False: none is to be had.
 */
bool mr_window_pool_need(struct mr_window_pool *pool, mr_block_id id);
/* One holder less; after the last one the slot is CACHED (newest) if it is of use, else FREE. */
void mr_window_pool_spare(struct mr_window_pool *pool, mr_block_id id, bool of_use);
/* `to`, which has no slot, gets the one of `from` with all who need it. */
void mr_window_pool_move(struct mr_window_pool *pool, mr_block_id from, mr_block_id to);
/* The block is about to be used for something else: its slot, if any, is FREE. Nobody needs it. */
void mr_window_pool_drop(struct mr_window_pool *pool, mr_block_id id);

/* How many holders need the block's slot. */
uint32_t mr_window_pool_needs(const struct mr_window_pool *pool, mr_block_id id);
uint32_t mr_window_pool_slot_count(const struct mr_window_pool *pool);
uint32_t mr_window_pool_free(const struct mr_window_pool *pool);
uint32_t mr_window_pool_cached(const struct mr_window_pool *pool);
/* Slots taken from a block that might have been found again. */
uint64_t mr_window_pool_evictions(const struct mr_window_pool *pool);
/* Asserts lists, counts and the two directions of who has what. */
void mr_window_pool_check(const struct mr_window_pool *pool);

#endif
