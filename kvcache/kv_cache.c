#include "kvcache/kv_cache.h"

#include "codec/check.h"
#include "kvcache/prefix_index.h"

#include <stdlib.h>
#include <string.h>

struct mr_kv_cache {
    struct mr_block_pool *pool;
    struct mr_prefix_index *index;
    struct mr_sha256 *hash;
    struct mr_block_tables *tables;
    struct mr_kv_window *window;   /* NULL: no layer has a sliding window */
    struct mr_state_slots *states; /* NULL: no layer is recurrent */
    /* [block_count] time at which each cached block lost its last reference */
    uint64_t *released_ns;
    uint32_t *recount; /* [block_count] references of each block, counted by _check only */
    uint32_t block_count;
    bool prefix_cache;
    uint64_t queries_tokens, hit_tokens, copies;
    uint64_t now_ns; /* latest time that the engine passed in */
};

/* The longest cached prefix of a prompt: full blocks, then `rest`, the block that has the prompt's
 * next tokens at its start. */
struct walk {
    uint32_t block_count;
    struct mr_prefix_hit rest;
    const unsigned char *key; /* chain key of the last full block, or the tenant's root key */
    uint32_t chain_count; /* full blocks found, of which those from block_count on have no use */
};

static void drop_state(struct mr_kv_cache *cache, mr_block_id id)
{
    if (cache->states != NULL) mr_state_slots_drop(cache->states, id);
}

static void on_evicted(void *context, mr_block_id id)
{
    struct mr_kv_cache *cache = context;
    mr_prefix_index_remove(cache->index, id);
    mr_kv_window_drop(cache->window, id);
    drop_state(cache, id);
}

static enum mr_status create_window(struct mr_kv_cache *cache,
                                    const struct mr_kv_cache_options *options, struct mr_error *err)
{
    struct mr_kv_window_options window = {.slot_count = options->window_slots,
                                          .window_tokens = options->window_tokens,
                                          .step_tokens = options->step_tokens,
                                          .sequence_tokens_max = options->sequence_tokens_max,
                                          .block_count = options->block_count,
                                          .pool = cache->pool};
    if (options->window_slots == 0) return MR_OK;
    return mr_kv_window_create(&cache->window, &window, err);
}

static enum mr_status create_parts(struct mr_kv_cache *cache,
                                   const struct mr_kv_cache_options *options, struct mr_error *err)
{
    enum mr_status status =
        mr_block_pool_create(&cache->pool, options->block_count, on_evicted, cache, err);
    if (status == MR_OK) mr_block_pool_set_kept_max(cache->pool, options->kept_max);
    if (status == MR_OK) status = mr_prefix_index_create(&cache->index, options->block_count, err);
    if (status == MR_OK)
        status = mr_block_tables_create(&cache->tables, options->sequences_max,
                                        mr_blocks_for(options->sequence_tokens_max), err);
    if (status == MR_OK) status = create_window(cache, options, err);
    if (status == MR_OK && options->state_slots > 0)
        status =
            mr_state_slots_create(&cache->states, options->state_slots, options->block_count, err);
    if (status != MR_OK) return status;
    cache->hash = mr_sha256_create();
    cache->released_ns = calloc(options->block_count, sizeof *cache->released_ns);
    cache->recount = calloc(options->block_count, sizeof *cache->recount);
    if (cache->hash == NULL || cache->released_ns == NULL || cache->recount == NULL)
        return mr_fail(err, MR_NOMEM, "no memory for a cache of %u blocks", options->block_count);
    return MR_OK;
}

enum mr_status mr_kv_cache_create(struct mr_kv_cache **out,
                                  const struct mr_kv_cache_options *options, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(options->sequence_tokens_max > 0 && options->sequences_max > 0);
    struct mr_kv_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) return mr_fail(err, MR_NOMEM, "no memory for a KV cache");
    cache->block_count = options->block_count;
    cache->prefix_cache = options->prefix_cache;
    enum mr_status status = create_parts(cache, options, err);
    if (status != MR_OK)
        mr_kv_cache_destroy(cache);
    else
        *out = cache;
    return status;
}

void mr_kv_cache_destroy(struct mr_kv_cache *cache)
{
    if (cache == NULL) return;
    free(cache->recount);
    free(cache->released_ns);
    mr_state_slots_destroy(cache->states);
    mr_kv_window_destroy(cache->window);
    mr_block_tables_destroy(cache->tables);
    mr_sha256_destroy(cache->hash);
    mr_prefix_index_destroy(cache->index);
    mr_block_pool_destroy(cache->pool);
    free(cache);
}

void mr_kv_cache_namespace(const struct mr_kv_fingerprint *fingerprint, const char *tenant,
                           unsigned char root[MR_HASH_BYTES])
{
    mr_block_hash_root(fingerprint->bytes, tenant, root);
}

void mr_kv_cache_prompt_key(struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                            const uint32_t *tokens, uint32_t count,
                            unsigned char key[MR_HASH_BYTES])
{
    mr_block_hash_prompt(cache->hash, root, tokens, count, key);
}

void mr_kv_cache_keys(struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                      const uint32_t *tokens, uint32_t block_count, unsigned char *keys)
{
    const unsigned char *parent = root;
    for (uint32_t i = 0; i < block_count; i++, keys += MR_HASH_BYTES) {
        mr_block_hash_chain(cache->hash, parent, tokens + (size_t)i * MR_BLOCK_TOKENS,
                            MR_BLOCK_TOKENS, keys);
        parent = keys;
    }
}

void mr_kv_cache_piece_key(struct mr_kv_cache *cache, const unsigned char parent[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count, unsigned char key[MR_HASH_BYTES])
{
    mr_block_hash_chain(cache->hash, parent, tokens, count, key);
}

const unsigned char *mr_kv_cache_block_key(const struct mr_kv_cache *cache, mr_block_id id)
{
    return mr_prefix_index_key(cache->index, id);
}

/* ---- tables ---- */

struct mr_block_table *mr_block_table_create(struct mr_kv_cache *cache,
                                             const unsigned char root[MR_HASH_BYTES])
{
    struct mr_block_table *table = mr_block_tables_take(cache->tables);
    if (table == NULL) return NULL;
    table->cache = cache;
    table->window = cache->window;
    table->published_tokens = table->query_tokens = table->matched_tokens = 0;
    table->window_begin = table->window_end = table->reserved_slots = table->running_slots = 0;
    table->state = cache->states == NULL ? MR_NO_STATE : mr_state_slots_take(cache->states);
    table->state_from = MR_NO_STATE;
    memcpy(table->root, root, MR_HASH_BYTES);
    memcpy(table->tail, root, MR_HASH_BYTES);
    return table;
}

static void release_block(struct mr_kv_cache *cache, mr_block_id id)
{
    cache->released_ns[id] = cache->now_ns;
    mr_block_pool_release(cache->pool, id);
    bool is_free =
        mr_block_pool_references(cache->pool, id) == 0 && !mr_block_pool_is_marked(cache->pool, id);
    if (is_free) mr_kv_window_drop(cache->window, id);
}

static void release_copy_source(struct mr_block_table *table)
{
    if (table->window != NULL) mr_kv_window_release(table->window, table->copy_from);
    release_block(table->cache, table->copy_from);
    table->copy_from = MR_BLOCK_NONE;
}

/* Releases the source block of the pending copy first: it follows a block of the table in the
 * prefix index, and must be evicted before that block. */
static void release_all(struct mr_block_table *table)
{
    mr_kv_cache_state_copied(table);
    if (table->copy_from != MR_BLOCK_NONE) release_copy_source(table);
    mr_kv_window_release_all(table);
    while (table->block_count > 0)
        release_block(table->cache, table->blocks[--table->block_count]);
    table->published_tokens = 0;
    memcpy(table->tail, table->root, MR_HASH_BYTES);
}

void mr_block_table_clear(struct mr_block_table *table, uint64_t now_ns)
{
    if (now_ns > table->cache->now_ns) table->cache->now_ns = now_ns;
    mr_block_pool_expire(table->cache->pool, table->cache->now_ns);
    release_all(table);
    mr_kv_window_unreserve(table);
    table->query_tokens = table->matched_tokens = 0;
}

void mr_block_table_destroy(struct mr_block_table *table, uint64_t now_ns)
{
    if (table == NULL) return;
    mr_block_table_clear(table, now_ns);
    if (table->state != MR_NO_STATE) mr_state_slots_release(table->cache->states, table->state);
    mr_block_tables_drop(table->cache->tables, table);
}

enum mr_status mr_kv_cache_reserve(struct mr_block_table *table, uint32_t token_count)
{
    uint32_t wanted = mr_blocks_for(token_count);
    MR_ASSERT(wanted <= mr_block_tables_blocks_max(table->cache->tables));
    if (wanted <= table->block_count) return MR_OK;
    enum mr_status status = mr_block_pool_take(table->cache->pool, wanted - table->block_count,
                                               table->blocks + table->block_count);
    if (status == MR_OK) table->block_count = wanted;
    return status;
}

/* ---- match ---- */

/* For models with sliding-window layers: the longest cached prefix after which the next token can
 * be computed, because every block that this token attends to still has its window slot. */
struct window_walk {
    uint32_t gap;     /* index of the first block after the last one without a window slot */
    struct walk best; /* the longest usable prefix of full blocks */
};

static void check_slot(const struct mr_kv_cache *cache, const struct walk *found, mr_block_id id,
                       struct window_walk *usable)
{
    uint32_t end_token = found->block_count * MR_BLOCK_TOKENS;
    if (!mr_kv_cache_is_complete(cache, id)) usable->gap = found->block_count;
    if (usable->gap <= mr_kv_window_first_block(cache->window, end_token)) usable->best = *found;
}

static struct walk shorten(const struct mr_kv_cache *cache, struct walk found,
                           const struct window_walk *usable)
{
    bool all = usable->best.block_count == found.block_count && found.rest.common_tokens > 0 &&
               mr_kv_cache_is_complete(cache, found.rest.id);
    return all ? found : usable->best;
}

/* The longest cached prefix of tokens[0..limit). The ids of its full blocks are written to
 * `blocks`, unless that is NULL. */
static struct walk walk(const struct mr_kv_cache *cache, const unsigned char *root,
                        const uint32_t *tokens, uint32_t limit, mr_block_id *blocks)
{
    struct walk found = {0, {MR_BLOCK_NONE, 0}, root, 0}, best = found;
    struct window_walk usable = {.best = found};
    for (uint32_t done = 0; cache->prefix_cache && done < limit; done += MR_BLOCK_TOKENS) {
        struct mr_prefix_hit hit =
            mr_prefix_index_find(cache->index, found.key, tokens + done, limit - done);
        if (hit.common_tokens < MR_BLOCK_TOKENS) {
            found.rest = hit;
            break;
        }
        if (blocks != NULL) blocks[found.block_count] = hit.id;
        found.block_count++;
        found.key = mr_prefix_index_key(cache->index, hit.id);
        if (cache->window != NULL) check_slot(cache, &found, hit.id, &usable);
        if (cache->states != NULL && mr_state_slots_find(cache->states, hit.id) != MR_NO_STATE)
            best = found;
    }
    if (cache->states != NULL) {
        best.chain_count = found.block_count;
        return best;
    }
    return cache->window == NULL ? found : shorten(cache, found, &usable);
}

uint32_t mr_kv_cache_probe(const struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count)
{
    if (count == 0) return 0;
    struct walk found = walk(cache, root, tokens, count - 1, NULL);
    return found.block_count * MR_BLOCK_TOKENS + found.rest.common_tokens;
}

/* Takes a block for the KV of the partly matching block `rest`, which the engine copies later; does
 * nothing when the pool has no block left. */
static void open_copy_order(struct mr_block_table *table, struct mr_prefix_hit rest,
                            struct mr_kv_match *match)
{
    struct mr_block_pool *pool = table->cache->pool;
    if (rest.common_tokens == 0) return;
    mr_block_pool_hold(pool, rest.id);
    mr_block_id to;
    if (mr_block_pool_take(pool, 1, &to) != MR_OK) {
        release_block(table->cache, rest.id);
        return;
    }
    if (table->window != NULL) mr_kv_window_hold(table->window, rest.id);
    table->copy_from = rest.id;
    table->blocks[table->block_count++] = to;
    *match = (struct mr_kv_match){match->token_count + rest.common_tokens, rest.id, to,
                                  rest.common_tokens, 0};
}

static void match_limit(struct mr_block_table *table, const uint32_t *tokens, uint32_t limit,
                        struct mr_kv_match *match)
{
    struct mr_kv_cache *cache = table->cache;
    MR_ASSERT(mr_blocks_for(limit) <= mr_block_tables_blocks_max(cache->tables));
    release_all(table);
    struct walk found = walk(cache, table->root, tokens, limit, table->blocks);
    for (uint32_t i = 0; i < found.block_count; i++)
        mr_block_pool_hold(cache->pool, table->blocks[i]);
    table->block_count = found.block_count;
    table->published_tokens = found.block_count * MR_BLOCK_TOKENS;
    memcpy(table->tail, found.key, MR_HASH_BYTES);
    *match = (struct mr_kv_match){table->published_tokens, MR_BLOCK_NONE, MR_BLOCK_NONE, 0,
                                  found.chain_count * MR_BLOCK_TOKENS};
    if (cache->states != NULL && found.block_count > 0) {
        table->state_from =
            mr_state_slots_find(cache->states, table->blocks[found.block_count - 1]);
        mr_state_slots_pin(cache->states, table->state_from);
    }
    mr_kv_window_hold_matched(table, table->published_tokens);
    open_copy_order(table, found.rest, match);
}

/* Adds this prefix lookup to the statistics. A repeated lookup of the same table replaces the one
 * before. */
static void count_match(struct mr_block_table *table, uint32_t queried, uint32_t matched)
{
    struct mr_kv_cache *cache = table->cache;
    cache->queries_tokens += (uint64_t)queried - table->query_tokens;
    cache->hit_tokens += (uint64_t)matched - table->matched_tokens;
    table->query_tokens = queried;
    table->matched_tokens = matched;
}

void mr_kv_cache_match(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                       struct mr_kv_match *match)
{
    match_limit(table, tokens, count > 0 ? count - 1 : 0, match);
    count_match(table, count, match->token_count);
}

bool mr_kv_cache_match_whole(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                             struct mr_kv_match *match)
{
    match_limit(table, tokens, count, match);
    if (match->token_count == count) {
        count_match(table, count, count);
        return true;
    }
    release_all(table);
    *match = (struct mr_kv_match){0, MR_BLOCK_NONE, MR_BLOCK_NONE, 0, 0};
    return false;
}

bool mr_kv_cache_can_go_back(const struct mr_block_table *table, uint32_t position)
{
    if (table->state != MR_NO_STATE) return false;
    return table->window == NULL ||
           table->window_begin <= mr_kv_window_first_block(table->window, position);
}

/* Counts the first full blocks of the table that are in the prefix index as published. */
static void adopt_published(struct mr_block_table *table)
{
    const struct mr_prefix_index *index = table->cache->index;
    for (uint32_t i = 0; i < table->block_count; i++) {
        if (mr_prefix_index_tokens(index, table->blocks[i]) < MR_BLOCK_TOKENS) return;
        table->published_tokens = (i + 1) * MR_BLOCK_TOKENS;
        memcpy(table->tail, mr_prefix_index_key(index, table->blocks[i]), MR_HASH_BYTES);
    }
}

bool mr_kv_cache_share(struct mr_block_table *table, const struct mr_block_table *from,
                       uint32_t token_count, struct mr_kv_match *match)
{
    uint32_t full = token_count / MR_BLOCK_TOKENS, rest = token_count % MR_BLOCK_TOKENS;
    MR_ASSERT(table != from && memcmp(table->root, from->root, MR_HASH_BYTES) == 0);
    MR_ASSERT(mr_blocks_for(token_count) <= from->block_count && from->copy_from == MR_BLOCK_NONE);
    if (!mr_kv_cache_can_go_back(from, token_count)) return false;
    if (rest > 0 && mr_kv_cache_available(table->cache) == 0) return false;
    release_all(table);
    for (uint32_t i = 0; i < full; i++) {
        table->blocks[i] = from->blocks[i];
        mr_block_pool_hold(table->cache->pool, table->blocks[i]);
    }
    table->block_count = full;
    adopt_published(table);
    *match = (struct mr_kv_match){full * MR_BLOCK_TOKENS, MR_BLOCK_NONE, MR_BLOCK_NONE, 0, 0};
    mr_kv_window_hold_matched(table, token_count);
    struct mr_prefix_hit hit = {rest > 0 ? from->blocks[full] : MR_BLOCK_NONE, rest};
    open_copy_order(table, hit, match);
    return true;
}

void mr_kv_cache_copied(struct mr_block_table *table, struct mr_kv_match *match)
{
    if (match->copy_tokens == 0) return;
    if (table->copy_from != MR_BLOCK_NONE) {
        MR_ASSERT(table->copy_from == match->copy_from);
        release_copy_source(table);
        table->cache->copies++;
    }
    match->copy_tokens = 0;
}

/* ---- states ---- */

void mr_kv_cache_state_copied(struct mr_block_table *table)
{
    if (table->state_from == MR_NO_STATE) return;
    mr_state_slots_unpin(table->cache->states, table->state_from);
    table->state_from = MR_NO_STATE;
}

uint32_t mr_kv_cache_keep_state(struct mr_block_table *table, uint32_t token_count)
{
    struct mr_kv_cache *cache = table->cache;
    MR_ASSERT(table->state != MR_NO_STATE && table->state_from == MR_NO_STATE);
    MR_ASSERT(token_count > 0 && token_count % MR_BLOCK_TOKENS == 0);
    if (token_count > table->published_tokens) return MR_NO_STATE;
    const mr_block_id block = table->blocks[token_count / MR_BLOCK_TOKENS - 1];
    if (mr_state_slots_find(cache->states, block) != MR_NO_STATE) return MR_NO_STATE;
    return mr_state_slots_keep(cache->states, block);
}

/* ---- publish ---- */

static void remove_from_index(struct mr_kv_cache *cache, mr_block_id id)
{
    if (mr_prefix_index_tokens(cache->index, id) == 0) return;
    mr_prefix_index_remove(cache->index, id);
    drop_state(cache, id);
    if (mr_block_pool_references(cache->pool, id) == 0) mr_kv_window_drop(cache->window, id);
    mr_block_pool_mark(cache->pool, id, false);
}

/* Removes a part-filled block, if no sequence holds it and the block being added to the prefix
 * index begins with all its tokens, from that index. */
static void remove_covered(struct mr_kv_cache *cache, struct mr_prefix_hit hit)
{
    if (hit.id == MR_BLOCK_NONE || mr_block_pool_references(cache->pool, hit.id) > 0) return;
    if (mr_prefix_index_tokens(cache->index, hit.id) == hit.common_tokens)
        remove_from_index(cache, hit.id);
}

/* Puts block i of the table, which holds these tokens after the chain key table->tail, into the
 * prefix index. Returns the block that the index has for these tokens: block i, or an older block
 * that begins with all of them. */
static mr_block_id insert_block(struct mr_block_table *table, uint32_t i, const uint32_t *tokens,
                                uint32_t count, const unsigned char *key)
{
    struct mr_kv_cache *cache = table->cache;
    mr_block_id id = table->blocks[i];
    remove_from_index(cache, id);
    struct mr_prefix_hit hit = mr_prefix_index_find(cache->index, table->tail, tokens, count);
    if (hit.common_tokens == count) return hit.id;
    remove_covered(cache, hit);
    struct mr_prefix_entry entry = {i > 0 ? table->blocks[i - 1] : MR_BLOCK_NONE, table->tail, key,
                                    tokens, count};
    mr_prefix_index_insert(cache->index, id, &entry);
    mr_block_pool_mark(cache->pool, id, true);
    return id;
}

static void publish_full(struct mr_block_table *table, uint32_t i, const uint32_t *tokens)
{
    struct mr_kv_cache *cache = table->cache;
    unsigned char key[MR_HASH_BYTES];
    mr_block_hash_chain(cache->hash, table->tail, tokens, MR_BLOCK_TOKENS, key);
    mr_block_id id = insert_block(table, i, tokens, MR_BLOCK_TOKENS, key);
    if (id != table->blocks[i]) {
        mr_kv_window_replace(table, i, id);
        mr_block_pool_hold(cache->pool, id);
        release_block(cache, table->blocks[i]);
        table->blocks[i] = id;
    }
    memcpy(table->tail, key, MR_HASH_BYTES);
}

void mr_kv_cache_publish(struct mr_block_table *table, const uint32_t *tokens, uint32_t computed,
                         bool final)
{
    MR_ASSERT(computed <= table->block_count * MR_BLOCK_TOKENS);
    MR_ASSERT(computed >= table->published_tokens && table->copy_from == MR_BLOCK_NONE);
    if (!table->cache->prefix_cache) return;
    uint32_t i = table->published_tokens / MR_BLOCK_TOKENS;
    for (; computed - i * MR_BLOCK_TOKENS >= MR_BLOCK_TOKENS; i++) {
        publish_full(table, i, tokens + (size_t)i * MR_BLOCK_TOKENS);
        table->published_tokens = (i + 1) * MR_BLOCK_TOKENS;
    }
    if (!final || computed == table->published_tokens) return;
    (void)insert_block(table, i, tokens + (size_t)i * MR_BLOCK_TOKENS, computed % MR_BLOCK_TOKENS,
                       NULL);
    table->published_tokens = computed;
}

void mr_kv_cache_keep(struct mr_block_table *table, uint64_t until_ns)
{
    for (uint32_t i = 0; i < table->block_count; i++)
        mr_block_pool_keep(table->cache->pool, table->blocks[i], until_ns);
}

/* ---- window slots ---- */

uint32_t mr_kv_cache_slot(const struct mr_kv_cache *cache, mr_block_id id)
{
    return cache->window == NULL ? UINT32_MAX : mr_kv_window_slot(cache->window, id);
}

bool mr_kv_cache_is_complete(const struct mr_kv_cache *cache, mr_block_id id)
{
    return cache->window == NULL || mr_kv_window_slot(cache->window, id) != UINT32_MAX;
}

/* ---- statistics and checks ---- */

uint32_t mr_kv_cache_available(const struct mr_kv_cache *cache)
{
    return mr_block_pool_free(cache->pool) + mr_block_pool_cached(cache->pool);
}

struct mr_kv_cache_stats mr_kv_cache_stats(const struct mr_kv_cache *cache)
{
    mr_block_id oldest = mr_block_pool_oldest(cache->pool);
    struct mr_kv_window_stats window = mr_kv_window_stats(cache->window);
    struct mr_state_slots_stats states = mr_state_slots_stats(cache->states);
    return (struct mr_kv_cache_stats){
        .block_count = cache->block_count,
        .free_count = mr_block_pool_free(cache->pool),
        .cached_count = mr_block_pool_cached(cache->pool),
        .held_count = mr_block_pool_held(cache->pool),
        .kept_count = mr_block_pool_kept(cache->pool),
        .queries_tokens = cache->queries_tokens,
        .hit_tokens = cache->hit_tokens,
        .evictions = mr_block_pool_evictions(cache->pool),
        .copies = cache->copies,
        .slot_count = window.slot_count,
        .slots_free = window.free_count,
        .slots_cached = window.cached_count,
        .state_slots = states.slot_count,
        .state_snapshots = states.snapshot_count,
        .snapshots_total = states.snapshots_total,
        .oldest_cached_ns = oldest == MR_BLOCK_NONE ? 0 : cache->released_ns[oldest],
    };
}

static void recount_table(const struct mr_kv_cache *cache, const struct mr_block_table *table)
{
    MR_ASSERT(table->cache == cache);
    MR_ASSERT(table->published_tokens <= table->block_count * MR_BLOCK_TOKENS);
    for (uint32_t i = 0; i < table->block_count; i++) {
        MR_ASSERT(table->blocks[i] < cache->block_count);
        cache->recount[table->blocks[i]]++;
        bool is_published = (i + 1) * MR_BLOCK_TOKENS <= table->published_tokens;
        MR_ASSERT(!is_published || mr_prefix_index_tokens(cache->index, table->blocks[i]) > 0);
    }
    if (table->copy_from != MR_BLOCK_NONE) cache->recount[table->copy_from]++;
}

/* A table holds a slot, and pins the snapshot that it waits for. Blocks with one are in the index.
 */
static void check_states(const struct mr_kv_cache *cache)
{
    const struct mr_block_table *table;
    uint32_t count = 0, pins = 0;
    if (cache->states == NULL) return;
    mr_state_slots_check(cache->states);
    for (; (table = mr_block_tables_at(cache->tables, count)) != NULL; count++) {
        pins += table->state_from != MR_NO_STATE;
        for (uint32_t i = 0; i < count; i++)
            MR_ASSERT(mr_block_tables_at(cache->tables, i)->state != table->state);
    }
    const struct mr_state_slots_stats stats = mr_state_slots_stats(cache->states);
    MR_ASSERT(stats.held_count == count && stats.pin_count == pins);
    for (uint32_t id = 0; id < cache->block_count; id++)
        MR_ASSERT(mr_state_slots_find(cache->states, id) == MR_NO_STATE ||
                  mr_prefix_index_tokens(cache->index, id) > 0);
}

void mr_kv_cache_check(const struct mr_kv_cache *cache)
{
    check_states(cache);
    mr_kv_window_check(cache->window, cache->tables);
    mr_block_pool_check(cache->pool);
    mr_prefix_index_check(cache->index);
    mr_block_tables_check(cache->tables);
    memset(cache->recount, 0, cache->block_count * sizeof *cache->recount);
    const struct mr_block_table *table;
    for (uint32_t i = 0; (table = mr_block_tables_at(cache->tables, i)) != NULL; i++)
        recount_table(cache, table);
    for (mr_block_id id = 0; id < cache->block_count; id++) {
        MR_ASSERT(mr_block_pool_references(cache->pool, id) == cache->recount[id]);
        MR_ASSERT(mr_block_pool_is_marked(cache->pool, id) ==
                  (mr_prefix_index_tokens(cache->index, id) > 0));
    }
}
