/* prompt_cache - the next-token logits of complete prompts, so that a prompt seen before skips the
 * model altogether.
 *
 * An entry is named by mr_kv_cache_prompt_key() (tenant root and all tokens) and holds one full row
 * of logits in fp32, so sampling from it is exactly sampling after the prompt; each asker samples
 * with parameters of its own. The prompt's KV is not here: it stays in the KV cache, where
 * mr_kv_cache_match_whole() must find all of it, or the entry is of no use this time. How the
 * engine uses the two:
 *     hit:   match_whole true and _find not NULL -> sample from the row, no forward.
 *     fill:  after the step that finished a prompt -> row = _put, copy its logits there,
 *            mr_kv_cache_publish(.., final) so that the KV of the last part-filled block is found.
 *
 * An entry lives until ttl_ns after its last access or until it is the least recently used one and
 * room is needed.
 *
 * Owner:  engine thread. Memory: all in _create: entries_max rows of vocab_size floats, whose pages
 *         are touched when first used.
 * Errors: _create MR_NOMEM. Costs: O(1) for all calls but _expire. No clock: now_ns is passed in
 *         and does not go back. */
#ifndef MR_BATCHING_CACHE_PROMPT_CACHE_H
#define MR_BATCHING_CACHE_PROMPT_CACHE_H

#include "codec/status.h"
#include "kvcache/kv_cache.h"

struct mr_prompt_cache;

struct mr_prompt_cache_options {
    uint32_t entries_max; /* 0: nothing is ever kept or found */
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

/* The row of that prompt, [vocab_size], valid until the next _put, _drop or _expire; NULL when it
 * is not here or too old. Counts as an access. */
const float *mr_prompt_cache_find(struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns);
/* The same, without counting as an access. */
const float *mr_prompt_cache_peek(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES], uint64_t now_ns);
/* A row for this prompt, to be filled by the caller before the next call: the one already here, or
 * a new one, for which the least recently used may have to go. NULL when entries_max is 0. */
float *mr_prompt_cache_put(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES],
                           uint64_t now_ns);
/* Forgets the prompt (its row could not be filled). */
void mr_prompt_cache_drop(struct mr_prompt_cache *cache, const unsigned char key[MR_HASH_BYTES]);
/* Forgets what was not accessed for ttl_ns; O(forgotten). */
void mr_prompt_cache_expire(struct mr_prompt_cache *cache, uint64_t now_ns);

/* Accesses by _find since it came in; 0 when it is not here. */
uint64_t mr_prompt_cache_accesses(const struct mr_prompt_cache *cache,
                                  const unsigned char key[MR_HASH_BYTES]);
struct mr_prompt_cache_stats mr_prompt_cache_stats(const struct mr_prompt_cache *cache);
/* Asserts list, hash and counts; O(entries). */
void mr_prompt_cache_check(const struct mr_prompt_cache *cache);

#endif
