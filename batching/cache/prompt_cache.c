/* A hash table over a fixed array of entries, and a list of the entries in order of last access.
 * Each entry is one complete prompt; entry i owns row i of the array of logits. */
#include "batching/cache/prompt_cache.h"

#include "codec/check.h"
#include "codec/hash_table.h"
#include "codec/index_list.h"

#include <stdlib.h>
#include <string.h>

#define NONE MR_INDEX_NONE

struct prompt_entry {
    struct mr_hash_entry link; /* in the table of keys, while the entry is in use */
    unsigned char key[MR_HASH_BYTES];
    uint32_t unused_next; /* index of the next entry in the list of unused entries */
    uint64_t accessed_ns, accesses;
};

struct mr_prompt_cache {
    struct mr_prompt_cache_options options;
    struct prompt_entry *entries;  /* [entries_max] cached prompts */
    struct mr_index_link *links;   /* [entries_max] links of the list `accessed` */
    float *rows;                   /* [entries_max * vocab_size] logits of the prompts */
    struct mr_hash_table keys;     /* the entries in use */
    uint32_t unused;               /* first entry of the list of unused entries */
    struct mr_index_list accessed; /* entries in order of last access, the oldest first */
    struct mr_prompt_cache_stats stats;
};

static enum mr_status make_tables(struct mr_prompt_cache *cache)
{
    uint32_t count = cache->options.entries_max;
    cache->entries = calloc((size_t)count + 1, sizeof *cache->entries);
    size_t row_bytes = cache->options.vocab_size * sizeof *cache->rows;
    cache->rows = calloc((size_t)count + 1, row_bytes);
    cache->links = calloc((size_t)count + 1, sizeof *cache->links);
    if (!mr_hash_table_create(&cache->keys, count) || cache->entries == NULL ||
        cache->rows == NULL || cache->links == NULL)
        return MR_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        cache->entries[i].unused_next = i + 1 < count ? i + 1 : NONE;
    cache->unused = count > 0 ? 0 : NONE;
    return MR_OK;
}

enum mr_status mr_prompt_cache_create(struct mr_prompt_cache **out,
                                      const struct mr_prompt_cache_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(options->entries_max < NONE && options->vocab_size > 0);
    struct mr_prompt_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) goto fail;
    cache->options = *options;
    cache->accessed = MR_INDEX_LIST_EMPTY;
    cache->stats.entries_max = options->entries_max;
    if (make_tables(cache) != MR_OK) goto fail_cache;
    *out = cache;
    return MR_OK;

fail_cache:
    mr_prompt_cache_destroy(cache);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the logits of %u prompts", options->entries_max);
}

void mr_prompt_cache_destroy(struct mr_prompt_cache *cache)
{
    if (cache == NULL) return;
    free(cache->rows);
    free(cache->links);
    free(cache->entries);
    mr_hash_table_destroy(&cache->keys);
    free(cache);
}

/* The key is a SHA-256, so its first 64 bits serve as the hash. */
static uint64_t hash_of(const unsigned char *key)
{
    uint64_t hash;
    memcpy(&hash, key, sizeof hash);
    return hash;
}

static bool has_key(const struct mr_hash_entry *link, const void *key)
{
    return memcmp(MR_HASH_ITEM(link, const struct prompt_entry, link)->key, key, MR_HASH_BYTES) ==
           0;
}

static uint32_t lookup(const struct mr_prompt_cache *cache, const unsigned char *key)
{
    const struct mr_hash_entry *link = mr_hash_table_find(&cache->keys, hash_of(key), has_key, key);
    if (link == NULL) return NONE;
    return (uint32_t)(MR_HASH_ITEM(link, struct prompt_entry, link) - cache->entries);
}

static bool is_expired(const struct mr_prompt_cache *cache, uint32_t index, uint64_t now_ns)
{
    uint64_t accessed_ns = cache->entries[index].accessed_ns;
    return cache->options.ttl_ns > 0 && now_ns > accessed_ns &&
           now_ns - accessed_ns >= cache->options.ttl_ns;
}

/* Appends the entry to the list of accesses, whose last entry is the most recently accessed one. */
static void append(struct mr_prompt_cache *cache, uint32_t index, uint64_t now_ns)
{
    cache->entries[index].accessed_ns = now_ns;
    mr_index_list_append(&cache->accessed, cache->links, index);
}

static void remove_entry(struct mr_prompt_cache *cache, uint32_t index)
{
    struct prompt_entry *entry = &cache->entries[index];
    mr_hash_table_remove(&cache->keys, &entry->link);
    mr_index_list_remove(&cache->accessed, cache->links, index);
    entry->unused_next = cache->unused;
    cache->unused = index;
    cache->stats.count--;
}

static float *row_of(const struct mr_prompt_cache *cache, uint32_t index)
{
    return cache->rows + (size_t)index * cache->options.vocab_size;
}

const float *mr_prompt_cache_find(struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns)
{
    uint32_t index = lookup(cache, key);
    if (index != NONE && is_expired(cache, index, now_ns)) {
        remove_entry(cache, index);
        cache->stats.expirations++;
        index = NONE;
    }
    if (index == NONE) {
        cache->stats.misses++;
        return NULL;
    }
    cache->stats.hits++;
    cache->entries[index].accesses++;
    mr_index_list_remove(&cache->accessed, cache->links, index);
    append(cache, index, now_ns);
    return row_of(cache, index);
}

const float *mr_prompt_cache_peek(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns)
{
    uint32_t index = lookup(cache, key);
    return index == NONE || is_expired(cache, index, now_ns) ? NULL : row_of(cache, index);
}

static uint32_t take_unused(struct mr_prompt_cache *cache)
{
    if (cache->unused == NONE) {
        remove_entry(cache, cache->accessed.first);
        cache->stats.evictions++;
    }
    uint32_t index = cache->unused;
    cache->unused = cache->entries[index].unused_next;
    return index;
}

float *mr_prompt_cache_put(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES],
                           uint64_t now_ns)
{
    if (cache->options.entries_max == 0) return NULL;
    mr_prompt_cache_expire(cache, now_ns);
    uint32_t index = lookup(cache, key);
    if (index != NONE) {
        mr_index_list_remove(&cache->accessed, cache->links, index);
    } else {
        index = take_unused(cache);
        struct prompt_entry *entry = &cache->entries[index];
        memcpy(entry->key, key, MR_HASH_BYTES);
        entry->accesses = 0;
        mr_hash_table_add(&cache->keys, &entry->link, hash_of(key));
        cache->stats.count++;
    }
    append(cache, index, now_ns);
    return row_of(cache, index);
}

void mr_prompt_cache_drop(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES])
{
    uint32_t index = lookup(cache, key);
    if (index != NONE) remove_entry(cache, index);
}

void mr_prompt_cache_expire(struct mr_prompt_cache *cache, uint64_t now_ns)
{
    while (cache->accessed.count > 0 && is_expired(cache, cache->accessed.first, now_ns)) {
        remove_entry(cache, cache->accessed.first);
        cache->stats.expirations++;
    }
}

uint64_t mr_prompt_cache_accesses(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES])
{
    uint32_t index = lookup(cache, key);
    return index == NONE ? 0 : cache->entries[index].accesses;
}

struct mr_prompt_cache_stats mr_prompt_cache_stats(const struct mr_prompt_cache *cache)
{
    return cache->stats;
}

void mr_prompt_cache_check(const struct mr_prompt_cache *cache)
{
    uint32_t unused = 0;
    uint64_t accessed_ns = 0;
    mr_index_list_check(&cache->accessed, cache->links);
    mr_hash_table_check(&cache->keys);
    for (uint32_t i = cache->accessed.first; i != NONE; i = cache->links[i].next) {
        MR_ASSERT(lookup(cache, cache->entries[i].key) == i);
        MR_ASSERT(cache->entries[i].accessed_ns >= accessed_ns);
        accessed_ns = cache->entries[i].accessed_ns;
    }
    MR_ASSERT(cache->accessed.count == cache->stats.count);
    MR_ASSERT(cache->keys.count == cache->stats.count);
    for (uint32_t i = cache->unused; i != NONE; i = cache->entries[i].unused_next)
        MR_ASSERT(unused++ < cache->options.entries_max);
    MR_ASSERT(cache->stats.count + unused == cache->options.entries_max);
}
