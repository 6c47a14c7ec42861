#include "kvcache/kv_window.h"

#include "codec/check.h"
#include "kvcache/kv_cache_state.h"

#include <string.h>

#define COPY_SLOTS 1u /* the source of a copy order is needed as well */

uint32_t mr_kv_window_blocks(uint32_t window_tokens, uint32_t step_tokens)
{
    return (window_tokens - 1 + step_tokens) / MR_BLOCK_TOKENS + 2;
}

enum mr_status mr_kv_window_create(struct mr_kv_cache *cache,
                                   const struct mr_kv_cache_options *options, struct mr_error *err)
{
    if (options->window_slots == 0) return MR_OK;
    MR_ASSERT(options->window_tokens > 0 && options->step_tokens > 0);
    cache->window_tokens = options->window_tokens;
    cache->step_tokens = options->step_tokens;
    uint32_t least = mr_kv_window_blocks(options->window_tokens, options->step_tokens);
    uint32_t all = mr_kv_blocks_for(options->sequence_tokens_max);
    least = (least < all ? least : all) + COPY_SLOTS;
    if (options->window_slots < least)
        return mr_fail(err, MR_BAD_CONFIG,
                       "the KV memory has %u blocks for sliding-window layers, a sequence takes %u",
                       options->window_slots, least);
    return mr_window_pool_create(&cache->window, options->window_slots, options->block_count, err);
}

static void need(struct mr_block_table *table, uint32_t i)
{
    struct mr_window_pool *window = table->cache->window;
    mr_block_id id = table->blocks[i];
    bool there = mr_window_pool_need(window, id);
    MR_ASSERT(there); /* it was promised, or is there already */
    table->slots[i] = mr_window_pool_slot(window, id);
}

void mr_kv_window_spare(struct mr_kv_cache *cache, mr_block_id id)
{
    mr_window_pool_spare(cache->window, id, mr_block_pool_is_marked(cache->pool, id));
}

void mr_kv_window_leave(struct mr_block_table *table)
{
    while (table->window_end > table->window_begin)
        mr_kv_window_spare(table->cache, table->blocks[--table->window_end]);
    table->window_begin = table->window_end = 0;
}

void mr_kv_window_need_matched(struct mr_block_table *table)
{
    struct mr_kv_cache *cache = table->cache;
    if (cache->window == NULL) return;
    table->window_begin = table->window_end = mr_kv_first_seen(cache, table->published_tokens);
    for (; table->window_end < table->block_count; table->window_end++)
        need(table, table->window_end);
}

void mr_kv_window_hand_over(struct mr_block_table *table, uint32_t i, mr_block_id to)
{
    struct mr_kv_cache *cache = table->cache;
    struct mr_window_pool *window = cache->window;
    mr_block_id from = table->blocks[i];
    if (window == NULL || mr_window_pool_slot(window, from) == MR_SLOT_NONE) return;
    bool needed = i >= table->window_begin && i < table->window_end;
    if (mr_window_pool_slot(window, to) == MR_SLOT_NONE) {
        mr_window_pool_move(window, from, to);
    } else if (needed) {
        (void)mr_window_pool_need(window, to);
        mr_window_pool_spare(window, from, false);
    }
    if (needed) table->slots[i] = mr_window_pool_slot(window, to);
}

bool mr_kv_window_promise(struct mr_block_table *table, uint32_t token_count, bool all)
{
    struct mr_kv_cache *cache = table->cache;
    if (cache->window == NULL) return true;
    uint32_t slots = mr_kv_blocks_for(token_count);
    uint32_t most = mr_kv_window_blocks(cache->window_tokens, cache->step_tokens);
    slots = (all || slots < most ? slots : most) + COPY_SLOTS;
    if (!all) table->usual_slots = slots;
    if (slots <= table->promised_slots) return true;
    uint32_t more = slots - table->promised_slots;
    if (cache->promised_slots + more > mr_window_pool_slot_count(cache->window)) return false;
    cache->promised_slots += more;
    table->promised_slots = slots;
    return true;
}

/* The table's blocks [window_begin, window_end) have slots it needs. */
void mr_kv_window_slide(struct mr_block_table *table, uint32_t computed, uint32_t end)
{
    struct mr_kv_cache *cache = table->cache;
    if (cache->window == NULL) return;
    uint32_t first = mr_kv_first_seen(cache, computed), last = mr_kv_blocks_for(end);
    MR_ASSERT(last <= table->block_count && table->window_begin <= first);
    while (table->window_begin < first && table->window_begin < table->window_end)
        mr_kv_window_spare(cache, table->blocks[table->window_begin++]);
    if (table->window_begin < first) table->window_begin = table->window_end = first;
    for (; table->window_end < last; table->window_end++)
        need(table, table->window_end);
    uint32_t taken = table->window_end - table->window_begin + COPY_SLOTS;
    MR_ASSERT(taken <= table->promised_slots);
    if (taken > table->usual_slots) return;
    cache->promised_slots -= table->promised_slots - table->usual_slots;
    table->promised_slots = table->usual_slots;
}

uint32_t mr_kv_window_slot(const struct mr_kv_cache *cache, mr_block_id id)
{
    return cache->window == NULL ? MR_SLOT_NONE : mr_window_pool_slot(cache->window, id);
}

bool mr_kv_window_is_complete(const struct mr_kv_cache *cache, mr_block_id id)
{
    return cache->window == NULL || mr_window_pool_slot(cache->window, id) != MR_SLOT_NONE;
}

static void recount_needs(const struct mr_kv_cache *cache, const struct mr_block_table *table)
{
    for (uint32_t i = table->window_begin; i < table->window_end; i++) {
        cache->recount[table->blocks[i]]++;
        MR_ASSERT(table->slots[i] == mr_window_pool_slot(cache->window, table->blocks[i]));
    }
    if (table->copy_from != MR_BLOCK_NONE) cache->recount[table->copy_from]++;
}

/* Who needs which slot, counted anew. */
void mr_kv_window_check(const struct mr_kv_cache *cache)
{
    uint32_t promised = 0;
    const struct mr_block_table *table;
    if (cache->window == NULL) return;
    mr_window_pool_check(cache->window);
    memset(cache->recount, 0, cache->block_count * sizeof *cache->recount);
    for (uint32_t t = 0; (table = mr_block_tables_at(cache->tables, t)) != NULL; t++) {
        promised += table->promised_slots;
        recount_needs(cache, table);
    }
    MR_ASSERT(promised == cache->promised_slots);
    MR_ASSERT(promised <= mr_window_pool_slot_count(cache->window));
    for (mr_block_id id = 0; id < cache->block_count; id++) {
        MR_ASSERT(mr_window_pool_needs(cache->window, id) == cache->recount[id]);
        MR_ASSERT(mr_window_pool_slot(cache->window, id) == MR_SLOT_NONE ||
                  mr_block_pool_references(cache->pool, id) > 0 ||
                  mr_block_pool_is_marked(cache->pool, id));
    }
}
