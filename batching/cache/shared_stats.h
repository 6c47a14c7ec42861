/* shared_stats - counters of the KV cache in Redis (batching/cache/shared_cache.h), passed by
 * value.
 *
 * Types only. */
#ifndef MR_BATCHING_CACHE_SHARED_STATS_H
#define MR_BATCHING_CACHE_SHARED_STATS_H

#include "batching/cache/load_gate.h"

struct mr_shared_cache_stats {
    /* lookups: sent to Redis; refused by the Redis cache; those that found something */
    uint64_t lookups, lookups_refused, hits;
    uint64_t lookup_tokens, found_tokens;
    uint64_t decisions[MR_LOAD_VERDICT_COUNT];
    uint64_t loads, loaded_tokens, loaded_bytes, loaded_entries;
    uint64_t missing_items; /* values that the lookup found and the load did not deliver */
    uint64_t waits_ended;   /* times prefill stopped waiting for a load in flight */
    /* values loaded after prefill had computed their tokens, or after the load was abandoned */
    uint64_t unused_items;
    uint64_t stored_items, stored_bytes, stores_refused, stores_lost;
    /* engine thread's time for copying KV into and out of the pool */
    uint64_t import_ns, export_ns;
    double saved_ms; /* computing time that loads were predicted to save */
    uint64_t staging_count, staging_free;
    uint64_t lent_tables; /* block tables of ended sequences that the Redis cache still uses */
    /* loaded and stored bytes: straight in the KV pool; through a staging buffer */
    uint64_t direct_bytes, staged_bytes;
};

#endif
