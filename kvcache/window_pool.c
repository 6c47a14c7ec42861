/* Each window slot stores the id of its block, and each block the index of its slot. CACHED slots
 * form a queue, oldest first, and FREE slots a stack, over the same array of links. */
#include "kvcache/window_pool.h"

#include "codec/check.h"
#include "codec/index_list.h"

#include <stdlib.h>
#include <string.h>

struct window_slot {
    mr_block_id block;   /* the block whose KV is in the slot; MR_BLOCK_NONE: the slot is FREE */
    uint32_t references; /* 0 while `block` is set: the slot is CACHED */
};

struct mr_window_pool {
    struct window_slot *slots;   /* [slot_count] slots */
    struct mr_index_link *links; /* [slot_count] links of each slot in the queue or the stack */
    uint32_t *slot_of;           /* [block_count] slot of each block */
    uint32_t slot_count, block_count;
    struct mr_index_list free, cached;
};

static void append(struct mr_window_pool *pool, struct mr_index_list *list, uint32_t slot)
{
    mr_index_list_append(list, pool->links, slot);
}

static void remove_slot(struct mr_window_pool *pool, struct mr_index_list *list, uint32_t slot)
{
    mr_index_list_remove(list, pool->links, slot);
}

enum mr_status mr_window_pool_create(struct mr_window_pool **out, uint32_t slot_count,
                                     uint32_t block_count, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(slot_count > 0 && slot_count < MR_SLOT_NONE);
    struct mr_window_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) goto fail;
    pool->slots = calloc(slot_count, sizeof *pool->slots);
    pool->links = calloc(slot_count, sizeof *pool->links);
    pool->slot_of = malloc(block_count * sizeof *pool->slot_of);
    if (pool->slots == NULL || pool->links == NULL || pool->slot_of == NULL) goto fail_pool;
    pool->slot_count = slot_count;
    pool->block_count = block_count;
    memset(pool->slot_of, 0xff, block_count * sizeof *pool->slot_of);
    pool->free = pool->cached = MR_INDEX_LIST_EMPTY;
    for (uint32_t slot = slot_count; slot-- > 0;) {
        pool->slots[slot].block = MR_BLOCK_NONE;
        append(pool, &pool->free, slot);
    }
    *out = pool;
    return MR_OK;

fail_pool:
    mr_window_pool_destroy(pool);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for %u slots of sliding-window layers", slot_count);
}

void mr_window_pool_destroy(struct mr_window_pool *pool)
{
    if (pool == NULL) return;
    free(pool->slot_of);
    free(pool->links);
    free(pool->slots);
    free(pool);
}

uint32_t mr_window_pool_slot(const struct mr_window_pool *pool, mr_block_id id)
{
    MR_ASSERT(id < pool->block_count);
    return pool->slot_of[id];
}

static void set_free(struct mr_window_pool *pool, uint32_t slot)
{
    pool->slot_of[pool->slots[slot].block] = MR_SLOT_NONE;
    pool->slots[slot].block = MR_BLOCK_NONE;
    append(pool, &pool->free, slot);
}

static uint32_t take_slot(struct mr_window_pool *pool)
{
    if (pool->free.count == 0) {
        uint32_t oldest = pool->cached.first;
        if (oldest == MR_SLOT_NONE) return MR_SLOT_NONE;
        remove_slot(pool, &pool->cached, oldest);
        set_free(pool, oldest);
    }
    uint32_t slot = pool->free.last;
    remove_slot(pool, &pool->free, slot);
    return slot;
}

bool mr_window_pool_hold(struct mr_window_pool *pool, mr_block_id id)
{
    uint32_t slot = mr_window_pool_slot(pool, id);
    if (slot == MR_SLOT_NONE) {
        slot = take_slot(pool);
        if (slot == MR_SLOT_NONE) return false;
        pool->slots[slot].block = id;
        pool->slot_of[id] = slot;
    } else if (pool->slots[slot].references == 0) {
        remove_slot(pool, &pool->cached, slot);
    }
    pool->slots[slot].references++;
    return true;
}

void mr_window_pool_release(struct mr_window_pool *pool, mr_block_id id, bool cache)
{
    uint32_t slot = mr_window_pool_slot(pool, id);
    MR_ASSERT(slot != MR_SLOT_NONE && pool->slots[slot].references > 0);
    if (--pool->slots[slot].references > 0) return;
    if (cache)
        append(pool, &pool->cached, slot);
    else
        set_free(pool, slot);
}

void mr_window_pool_move(struct mr_window_pool *pool, mr_block_id from, mr_block_id to)
{
    uint32_t slot = mr_window_pool_slot(pool, from);
    MR_ASSERT(slot != MR_SLOT_NONE && mr_window_pool_slot(pool, to) == MR_SLOT_NONE);
    pool->slot_of[from] = MR_SLOT_NONE;
    pool->slot_of[to] = slot;
    pool->slots[slot].block = to;
}

void mr_window_pool_drop(struct mr_window_pool *pool, mr_block_id id)
{
    uint32_t slot = mr_window_pool_slot(pool, id);
    if (slot == MR_SLOT_NONE) return;
    MR_ASSERT(pool->slots[slot].references == 0);
    remove_slot(pool, &pool->cached, slot);
    set_free(pool, slot);
}

uint32_t mr_window_pool_references(const struct mr_window_pool *pool, mr_block_id id)
{
    uint32_t slot = mr_window_pool_slot(pool, id);
    return slot == MR_SLOT_NONE ? 0 : pool->slots[slot].references;
}

uint32_t mr_window_pool_slot_count(const struct mr_window_pool *pool)
{
    return pool->slot_count;
}

uint32_t mr_window_pool_free(const struct mr_window_pool *pool)
{
    return pool->free.count;
}

uint32_t mr_window_pool_cached(const struct mr_window_pool *pool)
{
    return pool->cached.count;
}

static void check_list(const struct mr_window_pool *pool, const struct mr_index_list *list,
                       bool free)
{
    mr_index_list_check(list, pool->links);
    for (uint32_t slot = list->first; slot != MR_SLOT_NONE; slot = pool->links[slot].next) {
        const struct window_slot *node = &pool->slots[slot];
        MR_ASSERT(node->references == 0 && (node->block == MR_BLOCK_NONE) == free);
    }
}

void mr_window_pool_check(const struct mr_window_pool *pool)
{
    uint32_t held = 0, with_slot = 0;
    for (uint32_t slot = 0; slot < pool->slot_count; slot++) {
        const struct window_slot *node = &pool->slots[slot];
        MR_ASSERT(node->block == MR_BLOCK_NONE || pool->slot_of[node->block] == slot);
        held += node->references > 0;
    }
    for (mr_block_id id = 0; id < pool->block_count; id++)
        with_slot += pool->slot_of[id] != MR_SLOT_NONE;
    check_list(pool, &pool->free, true);
    check_list(pool, &pool->cached, false);
    MR_ASSERT(with_slot + pool->free.count == pool->slot_count);
    MR_ASSERT(pool->free.count + pool->cached.count + held == pool->slot_count);
}
