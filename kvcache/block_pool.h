/* block_pool - states and reference counts of the KV cache blocks. Metadata only: no tensors, no
 * clock, no lock, no I/O.
 *
 * A block is FREE, CACHED (unreferenced but in the prefix index; evicted oldest first) or HELD
 * (references > 0; may be indexed as well).
 *
 * Some CACHED blocks are kept for a time (conversations): they are evicted only when no other
 * CACHED block is left. At most kept_max blocks are kept; beyond that the oldest kept block becomes
 * an ordinary CACHED one. kv_cache keeps all blocks of a sequence, last block first, so a sequence
 * is still evicted from its end.
 *
 * Owner:  engine thread. Memory: all of it in _create. Errors: only _create and _take can fail.
 * Invariant: free + cached + held == block_count, checked by mr_block_pool_check(). */
#ifndef MR_KVCACHE_BLOCK_POOL_H
#define MR_KVCACHE_BLOCK_POOL_H

#include "codec/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef MR_BLOCK_TOKENS
/* tokens in a KV block: 16, 32, 64, 128 or 256, fixed when the program is built */
#define MR_BLOCK_TOKENS 256u
#endif

typedef uint32_t mr_block_id; /* index of a block in the pool: [0, block_count) */
#define MR_BLOCK_NONE UINT32_MAX

/* Number of blocks that hold this many tokens. */
static inline uint32_t mr_blocks_for(uint32_t tokens)
{
    return tokens / MR_BLOCK_TOKENS + (tokens % MR_BLOCK_TOKENS != 0);
}

struct mr_block_pool;

/* Called when a CACHED block is evicted: the callback removes the block from the prefix index. The
 * callback must not call functions of the pool. */
typedef void (*mr_block_evicted)(void *context, mr_block_id id);

enum mr_status mr_block_pool_create(struct mr_block_pool **out, uint32_t block_count,
                                    mr_block_evicted evicted, void *context, struct mr_error *err);
/* Sets the most blocks kept at a time; after _create it is 0, so that no block is kept. */
void mr_block_pool_set_kept_max(struct mr_block_pool *pool, uint32_t kept_max);
/* pool may be NULL. */
void mr_block_pool_destroy(struct mr_block_pool *pool);

/* Takes count blocks or none. On MR_OK ids[0..count) are HELD with one reference each, and CACHED
 * blocks were evicted if needed; on MR_FULL nothing changed. count may be 0. */
enum mr_status mr_block_pool_take(struct mr_block_pool *pool, uint32_t count, mr_block_id *ids);
/* Adds one reference to the block; a CACHED block becomes HELD. */
void mr_block_pool_hold(struct mr_block_pool *pool, mr_block_id id);
/* Removes one reference from the block; with none left the block is CACHED (as the newest) if it is
 * marked as indexed, else FREE. */
void mr_block_pool_release(struct mr_block_pool *pool, mr_block_id id);
/* Keeps a HELD block, once it is CACHED, until until_ns. A later call never shortens the time. */
void mr_block_pool_keep(struct mr_block_pool *pool, mr_block_id id, uint64_t until_ns);
/* Turns kept blocks whose time has passed into ordinary CACHED ones. now_ns must not decrease from
 * call to call. */
void mr_block_pool_expire(struct mr_block_pool *pool, uint64_t now_ns);
/* Sets whether the prefix index contains this block. A CACHED block set to indexed = false becomes
 * FREE. */
void mr_block_pool_mark(struct mr_block_pool *pool, mr_block_id id, bool indexed);

uint32_t mr_block_pool_references(const struct mr_block_pool *pool, mr_block_id id);
bool mr_block_pool_is_marked(const struct mr_block_pool *pool, mr_block_id id);
/* The CACHED block that would be evicted next; MR_BLOCK_NONE when no block is CACHED. */
mr_block_id mr_block_pool_oldest(const struct mr_block_pool *pool);
uint32_t mr_block_pool_free(const struct mr_block_pool *pool);
uint32_t mr_block_pool_cached(const struct mr_block_pool *pool);
/* number of kept blocks, which mr_block_pool_cached() counts too */
uint32_t mr_block_pool_kept(const struct mr_block_pool *pool);
uint32_t mr_block_pool_held(const struct mr_block_pool *pool);
uint64_t mr_block_pool_evictions(const struct mr_block_pool *pool);
/* Asserts the invariant, the block lists and the counts; O(blocks). */
void mr_block_pool_check(const struct mr_block_pool *pool);

#endif
