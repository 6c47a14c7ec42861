/* kv_cache_values - the options, results and statistics of the KV cache (kvcache/kv_cache.h).
 *
 * Memory: plain values. */
#ifndef MR_KVCACHE_KV_CACHE_VALUES_H
#define MR_KVCACHE_KV_CACHE_VALUES_H

#include "kvcache/block_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_kv_cache_options {
    uint32_t block_count;
    uint32_t sequence_tokens_max; /* longest sequence, the limit of a block table */
    uint32_t sequences_max;       /* most block tables at a time */
    uint32_t kept_max;            /* most blocks that _keep keeps; 0: _keep does nothing */
    bool prefix_cache;            /* false: _match finds nothing */
    /* KV slots of the sliding-window layers; 0: no layer has one, and window_tokens and step_tokens
     * are ignored */
    uint32_t window_slots;
    uint32_t window_tokens; /* length of the sliding window */
    uint32_t step_tokens;   /* most tokens of one sequence in one step */
    /* Slots of the state pool of a model with recurrent layers: twice sequences_max, or one for one
     * sequence. 0: no such layers. */
    uint32_t state_slots;
};

struct mr_kv_match {
    uint32_t token_count; /* cached tokens found, with the copy_tokens of the copy order below */
    /* Copy order: before the step the engine copies the KV of the first copy_tokens tokens of block
     * copy_from into block copy_to, then calls mr_kv_cache_copied(). copy_tokens 0: nothing to
     * copy. */
    mr_block_id copy_from, copy_to;
    uint32_t copy_tokens;
    /* With recurrent layers: tokens of the full blocks found, whether or not a state was kept at
     * their end; else 0. */
    uint32_t chain_tokens;
};

struct mr_kv_cache_stats {
    uint32_t block_count, free_count, cached_count, held_count;
    uint32_t kept_count; /* cached blocks that _keep keeps; cached_count includes them */
    uint64_t queries_tokens, hit_tokens, evictions, copies;
    /* when the next block to be evicted was released; 0: no block is cached */
    uint64_t oldest_cached_ns;
    /* KV slots of sliding-window layers; slots neither free nor cached are held by sequences */
    uint32_t slot_count, slots_free, slots_cached;
    uint32_t state_slots, state_snapshots; /* slots of the state pool; those with snapshots */
    uint64_t snapshots_total;              /* snapshots ever taken */
};

#endif
