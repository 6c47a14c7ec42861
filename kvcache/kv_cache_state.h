/* kv_cache_state - what kv_cache.c and kv_window.c share. Nobody else includes it. */
#ifndef MR_KVCACHE_KV_CACHE_STATE_H
#define MR_KVCACHE_KV_CACHE_STATE_H

#include "kvcache/block_table.h"
#include "kvcache/kv_cache.h"
#include "kvcache/prefix_index.h"
#include "kvcache/window_pool.h"

struct mr_kv_cache {
    struct mr_block_pool *pool;
    struct mr_prefix_index *index;
    struct mr_sha256 *hash;
    struct mr_block_tables *tables;
    struct mr_window_pool *window; /* NULL: no layer slides */
    uint32_t window_tokens, step_tokens;
    uint32_t promised_slots; /* to all tables together */
    uint64_t *released_ns;   /* [block_count] when a cached block lost its last reference */
    uint32_t *recount;       /* [block_count] of references, used by _check only */
    uint32_t block_count;
    bool prefix_cache;
    uint64_t queries_tokens, hit_tokens, copies;
    uint64_t now_ns; /* latest the engine said */
};

static inline uint32_t mr_kv_blocks_for(uint32_t token_count)
{
    return token_count / MR_BLOCK_TOKENS + (token_count % MR_BLOCK_TOKENS != 0);
}

/* First block that the token at this position sees through the window. */
static inline uint32_t mr_kv_first_seen(const struct mr_kv_cache *cache, uint32_t position)
{
    if (position < cache->window_tokens) return 0;
    return (position - cache->window_tokens + 1) / MR_BLOCK_TOKENS;
}

/* MR_OK and no window without window_slots. */
enum mr_status mr_kv_window_create(struct mr_kv_cache *cache,
                                   const struct mr_kv_cache_options *options, struct mr_error *err);
/* One holder less of the block's slot. */
void mr_kv_window_spare(struct mr_kv_cache *cache, mr_block_id id);
/* The table needs no slot any more. */
void mr_kv_window_leave(struct mr_block_table *table);
/* The slots of matched blocks that the token behind them sees; the walk has seen them. */
void mr_kv_window_need_matched(struct mr_block_table *table);
/* Block i of the table gives way to another with the same tokens, which gets its slot if it has
 * none of its own. */
void mr_kv_window_hand_over(struct mr_block_table *table, uint32_t i, mr_block_id to);
void mr_kv_window_check(const struct mr_kv_cache *cache);

#endif
