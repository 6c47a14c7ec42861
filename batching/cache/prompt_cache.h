/* prompt_cache - the next-token logits of complete prompts, so that a repeated prompt needs no
 * forward pass.
 *
 * An entry is found by mr_kv_cache_prompt_key() (a hash of the tenant's root key and all tokens)
 * and holds one full row of logits in fp32. Sampling from this row equals sampling after computing
 * the prompt; each request samples with its own parameters. The prompt's KV stays in the KV cache;
 * the entry is used only when mr_kv_cache_match_whole() finds all of the prompt's KV. How the
 * engine uses the two caches:
 *     hit:  _find not NULL and match_whole true -> sample from the row, no forward pass.
 *     fill: after the step that finished a prompt -> row = _put, copy its logits there,
 *     mr_kv_cache_publish(.., final) so that the KV of the last part-filled block is found.
 *
 * An entry is removed ttl_ns after its last access, or when it is the least recently used entry and
 * a new entry needs its row.
 *
 * Owner: engine thread. Memory: all in _create: entries_max rows of vocab_size floats, whose memory
 * pages are touched on first use. Errors: _create MR_NOMEM. Costs: O(1) for all calls except
 * _expire. No clock: now_ns is passed in and never decreases. */
#ifndef MR_BATCHING_CACHE_PROMPT_CACHE_H
#define MR_BATCHING_CACHE_PROMPT_CACHE_H

#include "codec/status.h"
#include "kvcache/kv_cache.h"

struct mr_prompt_cache;

struct mr_prompt_cache_options {
    uint32_t entries_max; /* most prompts cached at a time; 0: the cache is off */
    uint32_t vocab_size;
    uint64_t ttl_ns; /* time a prompt is kept after its last access; 0: no limit */
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

/* Returns the logits of the prompt, [vocab_size], valid until the next _put, _drop or _expire; NULL
 * when the prompt is not cached or has expired. Counts as an access. */
const float *mr_prompt_cache_find(struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns);
/* Returns what mr_prompt_cache_find() would return, without counting an access. */
const float *mr_prompt_cache_peek(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns);
/* Returns the row of logits for this prompt, which the caller must fill before the next call: the
 * row the prompt already has, or a new one, for which the least recently used prompt may be
 * evicted. NULL when entries_max is 0. */
float *mr_prompt_cache_put(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES],
                           uint64_t now_ns);
/* Removes the prompt from the cache; for a caller that cannot fill the row that _put returned. */
void mr_prompt_cache_drop(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES]);
/* Removes prompts not accessed for ttl_ns. Costs O(prompts removed). */
void mr_prompt_cache_expire(struct mr_prompt_cache *cache, uint64_t now_ns);

/* Number of times that _find returned this prompt since it was added; 0 when it is not cached. */
uint64_t mr_prompt_cache_accesses(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES]);
struct mr_prompt_cache_stats mr_prompt_cache_stats(const struct mr_prompt_cache *cache);
/* Asserts that the list, the hash table and the counts agree; O(entries). */
void mr_prompt_cache_check(const struct mr_prompt_cache *cache);

#endif
