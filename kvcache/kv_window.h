/* kv_window - the part of kv_cache.h for models some of whose layers see the last window_tokens
 * tokens only.
 *
 * Their KV lies in slots (window_pool.h), fewer than there are blocks. A table needs slots for the
 * blocks its next rows see and write, which the window caps; what it has left behind it spares, and
 * the slot spared longest ago is used again. A prefix is a hit only if the blocks of its last
 * window still have their slots. _promise sets aside, before a sequence runs, the slots it can need
 * at a time; so _slide, before each of its steps, cannot fail. Without such layers _promise is
 * always true and _slide does nothing.
 *
 * Owner:  engine thread. Memory, errors: none of its own. Accounts: mr_kv_cache_check(). */
#ifndef MR_KVCACHE_KV_WINDOW_H
#define MR_KVCACHE_KV_WINDOW_H

#include "kvcache/block_pool.h"

struct mr_block_table;
struct mr_kv_cache;

/* Slots for a sequence of at most token_count tokens are set aside for this table until it is
 * cleared: those of a window and a step; or those of all its blocks, which are about to be loaded,
 * until _slide has left most of them behind. False: not now, nothing changed. */
bool mr_kv_window_promise(struct mr_block_table *table, uint32_t token_count, bool all);
/* Before tokens [computed, end) are computed: spares the slots the window has left behind and takes
 * those up to end. The table covers end, and has been promised enough. */
void mr_kv_window_slide(struct mr_block_table *table, uint32_t computed, uint32_t end);
/* Slot of a block a table holds; UINT32_MAX: it has none, or no layer slides. */
uint32_t mr_kv_window_slot(const struct mr_kv_cache *cache, mr_block_id id);
/* No layer's KV of this block is gone. */
bool mr_kv_window_is_complete(const struct mr_kv_cache *cache, mr_block_id id);
/* Blocks a step of step_tokens sees and writes at most. */
uint32_t mr_kv_window_blocks(uint32_t window_tokens, uint32_t step_tokens);

#endif
