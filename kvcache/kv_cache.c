#include "kvcache/kv_cache.h"

#include "codec/check.h"
#include "kvcache/kv_cache_state.h"

#include <stdlib.h>
#include <string.h>

/* What a walk down the tree found: whole blocks, then a run inside one more. */
struct walk {
    uint32_t block_count;
    struct mr_prefix_hit rest;
    const unsigned char *key; /* of the last whole block, or the root */
};

static void forget(void *context, mr_block_id id)
{
    struct mr_kv_cache *cache = context;
    mr_prefix_index_remove(cache->index, id);
    if (cache->window != NULL) mr_window_pool_drop(cache->window, id);
}

static enum mr_status make_parts(struct mr_kv_cache *cache,
                                 const struct mr_kv_cache_options *options, struct mr_error *err)
{
    enum mr_status status =
        mr_block_pool_create(&cache->pool, options->block_count, forget, cache, err);
    if (status == MR_OK) mr_block_pool_set_kept_max(cache->pool, options->kept_max);
    if (status == MR_OK) status = mr_prefix_index_create(&cache->index, options->block_count, err);
    if (status == MR_OK)
        status = mr_block_tables_create(&cache->tables, options->sequences_max,
                                        mr_kv_blocks_for(options->sequence_tokens_max), err);
    if (status == MR_OK) status = mr_kv_window_create(cache, options, err);
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
    enum mr_status status = make_parts(cache, options, err);
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
    mr_window_pool_destroy(cache->window);
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
    table->published_tokens = table->asked_tokens = table->matched_tokens = 0;
    table->window_begin = table->window_end = table->promised_slots = table->usual_slots = 0;
    memcpy(table->root, root, MR_HASH_BYTES);
    memcpy(table->tail, root, MR_HASH_BYTES);
    return table;
}

static void let_go(struct mr_kv_cache *cache, mr_block_id id)
{
    cache->released_ns[id] = cache->now_ns;
    mr_block_pool_release(cache->pool, id);
    bool is_free =
        mr_block_pool_references(cache->pool, id) == 0 && !mr_block_pool_is_marked(cache->pool, id);
    if (is_free && cache->window != NULL) mr_window_pool_drop(cache->window, id);
}

static void let_go_of_source(struct mr_block_table *table)
{
    if (table->cache->window != NULL) mr_kv_window_spare(table->cache, table->copy_from);
    let_go(table->cache, table->copy_from);
    table->copy_from = MR_BLOCK_NONE;
}

/* The copy source first: it hangs below blocks of the table and must be evicted before them. */
static void empty(struct mr_block_table *table)
{
    if (table->copy_from != MR_BLOCK_NONE) let_go_of_source(table);
    mr_kv_window_leave(table);
    while (table->block_count > 0)
        let_go(table->cache, table->blocks[--table->block_count]);
    table->published_tokens = 0;
    memcpy(table->tail, table->root, MR_HASH_BYTES);
}

void mr_block_table_clear(struct mr_block_table *table, uint64_t now_ns)
{
    if (now_ns > table->cache->now_ns) table->cache->now_ns = now_ns;
    mr_block_pool_expire(table->cache->pool, table->cache->now_ns);
    empty(table);
    table->asked_tokens = table->matched_tokens = 0;
    table->cache->promised_slots -= table->promised_slots;
    table->promised_slots = table->usual_slots = 0;
}

void mr_block_table_destroy(struct mr_block_table *table, uint64_t now_ns)
{
    if (table == NULL) return;
    mr_block_table_clear(table, now_ns);
    mr_block_tables_drop(table->cache->tables, table);
}

enum mr_status mr_kv_cache_reserve(struct mr_block_table *table, uint32_t token_count)
{
    uint32_t wanted = mr_kv_blocks_for(token_count);
    MR_ASSERT(wanted <= mr_block_tables_blocks_max(table->cache->tables));
    if (wanted <= table->block_count) return MR_OK;
    enum mr_status status = mr_block_pool_take(table->cache->pool, wanted - table->block_count,
                                               table->blocks + table->block_count);
    if (status == MR_OK) table->block_count = wanted;
    return status;
}

/* ---- match ---- */

/* Of what a walk finds, the most that can be gone on from: every block the next token sees has a
 * slot. */
struct window_walk {
    uint32_t gap;     /* blocks [gap, so far) all have one */
    struct walk best; /* whole blocks only */
};

static void note_block(const struct mr_kv_cache *cache, const struct walk *found, mr_block_id id,
                       struct window_walk *seen)
{
    if (mr_window_pool_slot(cache->window, id) == MR_SLOT_NONE) seen->gap = found->block_count;
    if (seen->gap <= mr_kv_first_seen(cache, found->block_count * MR_BLOCK_TOKENS))
        seen->best = *found;
}

static struct walk shorten(const struct mr_kv_cache *cache, struct walk found,
                           const struct window_walk *seen)
{
    bool usable = seen->best.block_count == found.block_count && found.rest.common_tokens > 0 &&
                  mr_window_pool_slot(cache->window, found.rest.id) != MR_SLOT_NONE;
    return usable ? found : seen->best;
}

/* Follows tokens[0..limit) from the root; blocks may be NULL. */
static struct walk walk(const struct mr_kv_cache *cache, const unsigned char *root,
                        const uint32_t *tokens, uint32_t limit, mr_block_id *blocks)
{
    struct walk found = {0, {MR_BLOCK_NONE, 0}, root};
    struct window_walk seen = {.best = found};
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
        if (cache->window != NULL) note_block(cache, &found, hit.id, &seen);
    }
    return cache->window == NULL ? found : shorten(cache, found, &seen);
}

uint32_t mr_kv_cache_probe(const struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count)
{
    if (count == 0) return 0;
    struct walk found = walk(cache, root, tokens, count - 1, NULL);
    return found.block_count * MR_BLOCK_TOKENS + found.rest.common_tokens;
}

/* Opens the copy order, if a block for it can be had without losing its source. */
static void order_copy(struct mr_block_table *table, struct mr_prefix_hit rest,
                       struct mr_kv_match *match)
{
    struct mr_block_pool *pool = table->cache->pool;
    if (rest.common_tokens == 0) return;
    mr_block_pool_hold(pool, rest.id);
    mr_block_id to;
    if (mr_block_pool_take(pool, 1, &to) != MR_OK) {
        let_go(table->cache, rest.id);
        return;
    }
    if (table->cache->window != NULL) {
        bool there = mr_window_pool_need(table->cache->window, rest.id);
        MR_ASSERT(there); /* the walk has seen it */
    }
    table->copy_from = rest.id;
    table->blocks[table->block_count++] = to;
    *match = (struct mr_kv_match){match->token_count + rest.common_tokens, rest.id, to,
                                  rest.common_tokens};
}

static void match_limit(struct mr_block_table *table, const uint32_t *tokens, uint32_t limit,
                        struct mr_kv_match *match)
{
    struct mr_kv_cache *cache = table->cache;
    MR_ASSERT(mr_kv_blocks_for(limit) <= mr_block_tables_blocks_max(cache->tables));
    empty(table);
    struct walk found = walk(cache, table->root, tokens, limit, table->blocks);
    for (uint32_t i = 0; i < found.block_count; i++)
        mr_block_pool_hold(cache->pool, table->blocks[i]);
    table->block_count = found.block_count;
    table->published_tokens = found.block_count * MR_BLOCK_TOKENS;
    memcpy(table->tail, found.key, MR_HASH_BYTES);
    *match = (struct mr_kv_match){table->published_tokens, MR_BLOCK_NONE, MR_BLOCK_NONE, 0};
    mr_kv_window_need_matched(table);
    order_copy(table, found.rest, match);
}

/* A repeated match takes the place of the one before it, in the figures too. */
static void note_match(struct mr_block_table *table, uint32_t asked, uint32_t matched)
{
    struct mr_kv_cache *cache = table->cache;
    cache->queries_tokens += (uint64_t)asked - table->asked_tokens;
    cache->hit_tokens += (uint64_t)matched - table->matched_tokens;
    table->asked_tokens = asked;
    table->matched_tokens = matched;
}

void mr_kv_cache_match(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                       struct mr_kv_match *match)
{
    match_limit(table, tokens, count > 0 ? count - 1 : 0, match);
    note_match(table, count, match->token_count);
}

bool mr_kv_cache_match_whole(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                             struct mr_kv_match *match)
{
    match_limit(table, tokens, count, match);
    if (match->token_count == count) {
        note_match(table, count, count);
        return true;
    }
    empty(table);
    *match = (struct mr_kv_match){0, MR_BLOCK_NONE, MR_BLOCK_NONE, 0};
    return false;
}

void mr_kv_cache_copied(struct mr_block_table *table, struct mr_kv_match *match)
{
    if (match->copy_tokens == 0) return;
    if (table->copy_from != MR_BLOCK_NONE) {
        MR_ASSERT(table->copy_from == match->copy_from);
        let_go_of_source(table);
        table->cache->copies++;
    }
    match->copy_tokens = 0;
}

/* ---- publish ---- */

static void withdraw(struct mr_kv_cache *cache, mr_block_id id)
{
    if (mr_prefix_index_tokens(cache->index, id) == 0) return;
    mr_prefix_index_remove(cache->index, id);
    bool is_free = mr_block_pool_references(cache->pool, id) == 0;
    if (is_free && cache->window != NULL) mr_window_pool_drop(cache->window, id);
    mr_block_pool_mark(cache->pool, id, false);
}

/* An unused part-filled entry of which the block published now is a continuation says nothing
 * more. */
static void drop_shorter(struct mr_kv_cache *cache, struct mr_prefix_hit hit)
{
    if (hit.id == MR_BLOCK_NONE || mr_block_pool_references(cache->pool, hit.id) > 0) return;
    if (mr_prefix_index_tokens(cache->index, hit.id) == hit.common_tokens) withdraw(cache, hit.id);
}

/* Puts block i, holding these tokens behind table->tail, into the index, unless another entry
 * already says as much: then returns that one. */
static mr_block_id enter(struct mr_block_table *table, uint32_t i, const uint32_t *tokens,
                         uint32_t count, const unsigned char *key)
{
    struct mr_kv_cache *cache = table->cache;
    mr_block_id id = table->blocks[i];
    withdraw(cache, id);
    struct mr_prefix_hit hit = mr_prefix_index_find(cache->index, table->tail, tokens, count);
    if (hit.common_tokens == count) return hit.id;
    drop_shorter(cache, hit);
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
    mr_block_id id = enter(table, i, tokens, MR_BLOCK_TOKENS, key);
    if (id != table->blocks[i]) {
        mr_kv_window_hand_over(table, i, id);
        mr_block_pool_hold(cache->pool, id);
        let_go(cache, table->blocks[i]);
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
    (void)enter(table, i, tokens + (size_t)i * MR_BLOCK_TOKENS, computed % MR_BLOCK_TOKENS, NULL);
    table->published_tokens = computed;
}

void mr_kv_cache_keep(struct mr_block_table *table, uint64_t until_ns)
{
    for (uint32_t i = 0; i < table->block_count; i++)
        mr_block_pool_keep(table->cache->pool, table->blocks[i], until_ns);
}

/* ---- figures ---- */

uint32_t mr_kv_cache_available(const struct mr_kv_cache *cache)
{
    return mr_block_pool_free(cache->pool) + mr_block_pool_cached(cache->pool);
}

struct mr_kv_cache_stats mr_kv_cache_stats(const struct mr_kv_cache *cache)
{
    mr_block_id oldest = mr_block_pool_oldest(cache->pool);
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
        .slot_count = cache->window == NULL ? 0 : mr_window_pool_slot_count(cache->window),
        .slots_free = cache->window == NULL ? 0 : mr_window_pool_free(cache->window),
        .slots_cached = cache->window == NULL ? 0 : mr_window_pool_cached(cache->window),
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

void mr_kv_cache_check(const struct mr_kv_cache *cache)
{
    mr_kv_window_check(cache);
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
