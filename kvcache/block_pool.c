/* The block lists share one array of links: FREE blocks form a stack, so that the block freed last,
 * whose memory is warm, is reused first; CACHED and kept blocks form queues in the order in which
 * they lost their last reference. A HELD block is in no list. */
#include "kvcache/block_pool.h"

#include "codec/check.h"
#include "codec/index_list.h"

#include <stdlib.h>

enum block_state { BLOCK_FREE, BLOCK_CACHED, BLOCK_KEPT, BLOCK_HELD };

struct block_node {
    uint32_t references;
    uint8_t state; /* a value of enum block_state */
    bool indexed;
    uint64_t keep_until_ns; /* end of the time the block is kept; 0: not kept */
};

struct mr_block_pool {
    struct block_node *nodes;    /* [block_count] nodes */
    struct mr_index_link *links; /* [block_count] links of each block in the list of its state */
    uint32_t block_count;
    struct mr_index_list free, cached, kept; /* `cached` and `kept` have the oldest block first */
    uint32_t kept_max;
    uint64_t now_ns;
    uint64_t evictions;
    mr_block_evicted evicted;
    void *context;
};

static void append(struct mr_block_pool *pool, struct mr_index_list *list, mr_block_id id)
{
    mr_index_list_append(list, pool->links, id);
}

static void remove_block(struct mr_block_pool *pool, struct mr_index_list *list, mr_block_id id)
{
    mr_index_list_remove(list, pool->links, id);
}

enum mr_status mr_block_pool_create(struct mr_block_pool **out, uint32_t block_count,
                                    mr_block_evicted evicted, void *context, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(block_count > 0 && block_count < MR_BLOCK_NONE);
    struct mr_block_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) goto fail;
    pool->nodes = calloc(block_count, sizeof *pool->nodes);
    pool->links = calloc(block_count, sizeof *pool->links);
    if (pool->nodes == NULL || pool->links == NULL) goto fail_pool;
    pool->block_count = block_count;
    pool->evicted = evicted;
    pool->context = context;
    pool->free = pool->cached = pool->kept = MR_INDEX_LIST_EMPTY;
    for (uint32_t id = block_count; id-- > 0;)
        append(pool, &pool->free, id);
    *out = pool;
    return MR_OK;

fail_pool:
    mr_block_pool_destroy(pool);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for a pool of %u KV blocks", block_count);
}

void mr_block_pool_destroy(struct mr_block_pool *pool)
{
    if (pool == NULL) return;
    free(pool->links);
    free(pool->nodes);
    free(pool);
}

void mr_block_pool_set_kept_max(struct mr_block_pool *pool, uint32_t kept_max)
{
    pool->kept_max = kept_max;
}

static struct mr_index_list *list_of(struct mr_block_pool *pool, enum block_state state)
{
    MR_ASSERT(state != BLOCK_HELD);
    return state == BLOCK_FREE ? &pool->free : state == BLOCK_KEPT ? &pool->kept : &pool->cached;
}

/* Turns the oldest kept block into an ordinary CACHED one, the newest in their list. */
static void stop_keeping_oldest(struct mr_block_pool *pool)
{
    mr_block_id id = pool->kept.first;
    remove_block(pool, &pool->kept, id);
    pool->nodes[id].state = BLOCK_CACHED;
    pool->nodes[id].keep_until_ns = 0;
    append(pool, &pool->cached, id);
}

static void evict_oldest(struct mr_block_pool *pool)
{
    struct mr_index_list *list = pool->cached.count > 0 ? &pool->cached : &pool->kept;
    mr_block_id id = list->first;
    if (pool->evicted != NULL) pool->evicted(pool->context, id);
    remove_block(pool, list, id);
    pool->nodes[id].indexed = false;
    pool->nodes[id].state = BLOCK_FREE;
    append(pool, &pool->free, id);
    pool->evictions++;
}

enum mr_status mr_block_pool_take(struct mr_block_pool *pool, uint32_t count, mr_block_id *ids)
{
    if (count > pool->free.count + mr_block_pool_cached(pool)) return MR_FULL;
    for (uint32_t i = 0; i < count; i++) {
        if (pool->free.count == 0) evict_oldest(pool);
        mr_block_id id = pool->free.last;
        remove_block(pool, &pool->free, id);
        pool->nodes[id].state = BLOCK_HELD;
        pool->nodes[id].references = 1;
        pool->nodes[id].keep_until_ns = 0;
        ids[i] = id;
    }
    return MR_OK;
}

void mr_block_pool_hold(struct mr_block_pool *pool, mr_block_id id)
{
    MR_ASSERT(id < pool->block_count);
    struct block_node *node = &pool->nodes[id];
    MR_ASSERT(node->state != BLOCK_FREE);
    if (node->state != BLOCK_HELD) {
        remove_block(pool, list_of(pool, node->state), id);
        node->state = BLOCK_HELD;
    }
    node->references++;
}

void mr_block_pool_release(struct mr_block_pool *pool, mr_block_id id)
{
    MR_ASSERT(id < pool->block_count);
    struct block_node *node = &pool->nodes[id];
    MR_ASSERT(node->state == BLOCK_HELD && node->references > 0);
    if (--node->references > 0) return;
    /* The block is kept even if its keep time has passed: _expire ends the keeping of blocks in
     * list order, which starts at the end of a chain. */
    bool kept = pool->kept_max > 0 && node->keep_until_ns > 0;
    node->state = !node->indexed ? BLOCK_FREE : kept ? BLOCK_KEPT : BLOCK_CACHED;
    append(pool, list_of(pool, node->state), id);
    if (pool->kept.count > pool->kept_max) stop_keeping_oldest(pool);
}

void mr_block_pool_keep(struct mr_block_pool *pool, mr_block_id id, uint64_t until_ns)
{
    MR_ASSERT(id < pool->block_count);
    struct block_node *node = &pool->nodes[id];
    MR_ASSERT(node->state == BLOCK_HELD);
    if (until_ns > node->keep_until_ns) node->keep_until_ns = until_ns;
}

void mr_block_pool_expire(struct mr_block_pool *pool, uint64_t now_ns)
{
    if (now_ns > pool->now_ns) pool->now_ns = now_ns;
    while (pool->kept.count > 0 && pool->nodes[pool->kept.first].keep_until_ns <= pool->now_ns)
        stop_keeping_oldest(pool);
}

void mr_block_pool_mark(struct mr_block_pool *pool, mr_block_id id, bool indexed)
{
    MR_ASSERT(id < pool->block_count);
    struct block_node *node = &pool->nodes[id];
    MR_ASSERT(node->state != BLOCK_FREE);
    node->indexed = indexed;
    if (indexed || node->state == BLOCK_HELD) return;
    remove_block(pool, list_of(pool, node->state), id);
    node->state = BLOCK_FREE;
    append(pool, &pool->free, id);
}

uint32_t mr_block_pool_references(const struct mr_block_pool *pool, mr_block_id id)
{
    MR_ASSERT(id < pool->block_count);
    return pool->nodes[id].references;
}

bool mr_block_pool_is_marked(const struct mr_block_pool *pool, mr_block_id id)
{
    MR_ASSERT(id < pool->block_count);
    return pool->nodes[id].indexed;
}

mr_block_id mr_block_pool_oldest(const struct mr_block_pool *pool)
{
    return pool->cached.count > 0 ? pool->cached.first : pool->kept.first;
}

uint32_t mr_block_pool_free(const struct mr_block_pool *pool)
{
    return pool->free.count;
}

uint32_t mr_block_pool_cached(const struct mr_block_pool *pool)
{
    return pool->cached.count + pool->kept.count;
}

uint32_t mr_block_pool_kept(const struct mr_block_pool *pool)
{
    return pool->kept.count;
}

uint32_t mr_block_pool_held(const struct mr_block_pool *pool)
{
    return pool->block_count - pool->free.count - mr_block_pool_cached(pool);
}

uint64_t mr_block_pool_evictions(const struct mr_block_pool *pool)
{
    return pool->evictions;
}

static void check_list(const struct mr_block_pool *pool, const struct mr_index_list *list,
                       enum block_state state)
{
    mr_index_list_check(list, pool->links);
    for (mr_block_id id = list->first; id != MR_BLOCK_NONE; id = pool->links[id].next) {
        MR_ASSERT(pool->nodes[id].state == state && pool->nodes[id].references == 0);
        MR_ASSERT(pool->nodes[id].indexed == (state != BLOCK_FREE));
    }
}

void mr_block_pool_check(const struct mr_block_pool *pool)
{
    uint32_t held = 0;
    for (mr_block_id id = 0; id < pool->block_count; id++) {
        const struct block_node *node = &pool->nodes[id];
        MR_ASSERT((node->state == BLOCK_HELD) == (node->references > 0));
        held += node->state == BLOCK_HELD;
    }
    check_list(pool, &pool->free, BLOCK_FREE);
    check_list(pool, &pool->cached, BLOCK_CACHED);
    check_list(pool, &pool->kept, BLOCK_KEPT);
    MR_ASSERT(pool->kept.count <= pool->kept_max);
    MR_ASSERT(pool->free.count + mr_block_pool_cached(pool) + held == pool->block_count);
}
