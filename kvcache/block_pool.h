/* block_pool - which KV block is whose. Metadata only: no tensors, no clock, no lock, no I/O.
 *
 * A block is FREE, CACHED (unreferenced but in the prefix index, evictable, oldest first) or HELD
 * (references > 0; may be indexed as well). free + cached + held == block_count always.
 *
 * Among the CACHED ones some are kept for a time (conversations): these are evicted only when no
 * other is left. At most kept_max of them are; beyond that the oldest is as any other. Whoever
 * keeps a block keeps all of its chain, so a chain still goes from its end.
 *
 * Owner:  engine thread. Memory: all of it in _create. Errors: only _create and _take can fail. */
#ifndef MR_KVCACHE_BLOCK_POOL_H
#define MR_KVCACHE_BLOCK_POOL_H

#include "codec/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef MR_BLOCK_TOKENS
#define MR_BLOCK_TOKENS 256u /* tokens in a block: 16, 32, 64, 128 or 256, fixed for a build */
#endif

typedef uint32_t mr_block_id; /* index into the pool: [0, block_count) */
#define MR_BLOCK_NONE UINT32_MAX

struct mr_block_pool;

/* Called when a CACHED block is about to be reused: its owner forgets it. It must not call back
 * into the pool. */
typedef void (*mr_block_evicted)(void *context, mr_block_id id);

enum mr_status mr_block_pool_create(struct mr_block_pool **out, uint32_t block_count,
                                    mr_block_evicted evicted, void *context, struct mr_error *err);
/* Most blocks kept at a time; 0, as after _create: none. */
void mr_block_pool_set_kept_max(struct mr_block_pool *pool, uint32_t kept_max);
void mr_block_pool_destroy(struct mr_block_pool *pool);

/* All or nothing: on MR_OK ids[0..count) are HELD once each, evicting CACHED blocks if needed; on
 * MR_FULL nothing changed. count may be 0. */
enum mr_status mr_block_pool_take(struct mr_block_pool *pool, uint32_t count, mr_block_id *ids);
/* One more reference: CACHED becomes HELD. */
void mr_block_pool_hold(struct mr_block_pool *pool, mr_block_id id);
/* One reference less; at zero the block is CACHED (newest) if marked indexed, else FREE. */
void mr_block_pool_release(struct mr_block_pool *pool, mr_block_id id);
/* A HELD block is to be kept until then once it is CACHED. Never makes the time shorter. */
void mr_block_pool_keep(struct mr_block_pool *pool, mr_block_id id, uint64_t until_ns);
/* Kept blocks whose time is over are as any other from now on. now_ns does not go back. */
void mr_block_pool_expire(struct mr_block_pool *pool, uint64_t now_ns);
/* Says whether the prefix index knows this block. Unmarking a CACHED block frees it. */
void mr_block_pool_mark(struct mr_block_pool *pool, mr_block_id id, bool indexed);

uint32_t mr_block_pool_references(const struct mr_block_pool *pool, mr_block_id id);
bool mr_block_pool_is_marked(const struct mr_block_pool *pool, mr_block_id id);
/* The CACHED block that would be evicted next; MR_BLOCK_NONE when none is CACHED. */
mr_block_id mr_block_pool_oldest(const struct mr_block_pool *pool);
uint32_t mr_block_pool_free(const struct mr_block_pool *pool);
uint32_t mr_block_pool_cached(const struct mr_block_pool *pool);
uint32_t mr_block_pool_kept(const struct mr_block_pool *pool); /* among the cached */
uint32_t mr_block_pool_held(const struct mr_block_pool *pool);
uint64_t mr_block_pool_evictions(const struct mr_block_pool *pool);
void mr_block_pool_check(const struct mr_block_pool *pool);

#endif
