/* shared_stats - counters of the shared cache (batching/cache/shared_cache.h), by value.
 *
 * Types only. */
#ifndef MR_BATCHING_CACHE_SHARED_STATS_H
#define MR_BATCHING_CACHE_SHARED_STATS_H

#include "batching/cache/load_gate.h"

struct mr_shared_cache_stats {
    uint64_t lookups, lookups_refused, hits; /* lookups; refused by the tier; something was found */
    uint64_t lookup_tokens, found_tokens;
    uint64_t decisions[MR_LOAD_VERDICT_COUNT];
    uint64_t loads, loaded_tokens, loaded_bytes, loaded_entries;
    uint64_t missing_items; /* of ended loads: found by the lookup, never arrived */
    uint64_t waits_ended;   /* times prefill stopped waiting for a load in flight */
    uint64_t unused_items;  /* arrived after prefill had passed, or after an abandon */
    uint64_t stored_items, stored_bytes, stores_refused, stores_lost;
    uint64_t import_ns, export_ns; /* on the engine thread */
    double saved_ms;               /* predicted by the gate */
    uint64_t staging_count, staging_free;
    uint64_t lent_tables; /* block tables of ended sequences that the tier still uses */
    uint64_t direct_bytes, staged_bytes; /* loaded and stored in place; through a buffer */
};

#endif
