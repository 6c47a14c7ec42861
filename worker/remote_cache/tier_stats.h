/* tier_stats - the counters of the Redis cache, counted from the start of the process. The names
 * are those of the metrics (worker/remote_cache/tier_metrics.h). */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_STATS_H
#define MR_WORKER_REMOTE_CACHE_TIER_STATS_H

#include "kvcache/block_frame.h"
#include "worker/base/histogram.h"

/* X(name, metric, help): one counter, its Prometheus metric name, and the metric's HELP text. */
#define MR_TIER_COUNTER_LIST(X)                                                                    \
    X(LOOKUPS, "asks", "Lookups sent to Redis")                                                    \
    X(LOOKUPS_LATE, "asks_late", "Lookups that were not answered, or not in time")                 \
    X(ITEMS_QUERIED, "items_asked", "Items looked up")                                             \
    X(ITEMS_FOUND, "items_found", "Items found by lookups")                                        \
    X(LOADS, "loads", "Loads started")                                                             \
    X(ITEMS_LOADED, "items_loaded", "Items loaded and verified")                                   \
    X(BYTES_LOADED, "bytes_loaded", "Bytes of the items loaded and verified")                      \
    X(ITEMS_GONE, "items_gone", "Items found by a lookup, but missing or late when loaded")        \
    X(ITEMS_SKIPPED, "items_skipped", "Items not loaded because the engine computed them first")   \
    X(STORES, "stores", "Stores started")                                                          \
    X(ITEMS_STORED, "items_stored", "Items written to Redis")                                      \
    X(BYTES_STORED, "bytes_stored", "Bytes of the items written to Redis")                         \
    X(ITEMS_KNOWN, "items_known", "Items not written because Redis has them")                      \
    X(ITEMS_FIRST_TOUCH, "items_first_touch",                                                      \
      "Items not written because this worker computed them for the first time")                    \
    X(ITEMS_DROPPED, "items_dropped",                                                              \
      "Items not written: queue full, write budget spent, not in time, or refused by Redis")       \
    X(BYTES_DROPPED, "bytes_dropped", "Bytes of these items that Redis lacks")                     \
    X(REFUSALS, "refusals", "Commands that Redis refused: out of memory, no permission, read-only")

enum mr_tier_counter {
#define X(name, metric, help) MR_TIER_##name,
    MR_TIER_COUNTER_LIST(X)
#undef X
        MR_TIER_COUNTER_COUNT
};

struct mr_tier_queue_stats {
    uint64_t counters[MR_TIER_COUNTER_COUNT];
    uint64_t damaged[MR_VERDICT_COUNT]; /* values from Redis that failed verification, by cause */
    struct mr_histogram lookup_seconds; /* duration of lookups that Redis answered */
    struct mr_histogram load_seconds;   /* duration of loads that received at least one byte */
    uint32_t jobs;
    bool refusing; /* Redis refused a command and has stored nothing since */
    uint64_t waiting_load_bytes, waiting_store_bytes;
};

#endif
