/* prompt_cache - the next-token logits of complete prompts, so that a repeated prompt needs no
 * forward.
 *
 * An entry is found by mr_kv_cache_prompt_key() (tenant root and all tokens) and holds one full row
 * of logits in fp32, so sampling from it equals sampling after the prompt; each request samples
 * with its own parameters. The prompt's KV stays in the KV cache; the entry is used only when
 * mr_kv_cache_match_whole() finds all of it. How the engine uses the two:
 *     hit:   _find not NULL and match_whole true -> sample from the row, no forward.
 *     fill:  after the step that finished a prompt -> row = _put, copy its logits there,
 *            mr_kv_cache_publish(.., final) so that the KV of the last part-filled block is found.
 *
 * An entry is removed ttl_ns after its last access, or when it is the least recently used one and
 * a new entry needs its row.
 *
 * Owner:  engine thread. Memory: all in _create: entries_max rows of vocab_size floats, whose pages
 *         are touched on first use.
 * Errors: _create MR_NOMEM. Costs: O(1) for all calls but _expire. No clock: now_ns is passed in
 *         and never decreases. */
#ifndef MR_BATCHING_CACHE_PROMPT_CACHE_H
#define MR_BATCHING_CACHE_PROMPT_CACHE_H

#include "codec/status.h"
#include "kvcache/kv_cache.h"

struct mr_prompt_cache;

struct mr_prompt_cache_options {
    uint32_t entries_max; /* 0: the cache is off */
    uint32_t vocab_size;
    uint64_t ttl_ns; /* counted from the last access; 0: no limit */
};

struct mr_prompt_cache_stats {
    uint32_t count, entries_max;
    uint64_t hits, misses, evictions, expirations;
};

enum mr_status mr_prompt_cache_create(struct mr_prompt_cache **out,
                                      const struct mr_prompt_cache_options *options,
                                      struct mr_error *err);
/* cache may be NULL. */
void mr_prompt_cache_destroy(struct mr_prompt_cache *cache);

/* The prompt's row, [vocab_size], valid until the next _put, _drop or _expire; NULL when it is not
 * cached or expired. Counts as an access. */
const float *mr_prompt_cache_find(struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns);
/* The same, not counted as an access. */
const float *mr_prompt_cache_peek(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns);
/* A row for this prompt that the caller must fill before the next call: the existing one, or a new
 * one, which may evict the least recently used. NULL when entries_max is 0. */
float *mr_prompt_cache_put(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES],
                           uint64_t now_ns);
/* Removes the prompt (its row could not be filled). */
void mr_prompt_cache_drop(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES]);
/* Removes entries not accessed for ttl_ns; O(removed). */
void mr_prompt_cache_expire(struct mr_prompt_cache *cache, uint64_t now_ns);

/* Accesses by _find since the entry was made; 0 when there is none. */
uint64_t mr_prompt_cache_accesses(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES]);
struct mr_prompt_cache_stats mr_prompt_cache_stats(const struct mr_prompt_cache *cache);
/* Asserts list, hash table and counts; O(entries). */
void mr_prompt_cache_check(const struct mr_prompt_cache *cache);

#endif
