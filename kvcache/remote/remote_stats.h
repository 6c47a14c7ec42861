/* remote_stats - the counters of the remote cache, counted from the start of the process, and the
 * names and HELP texts of their metrics (worker/remote_cache/remote_metrics.h).
 *
 * Types only. */
#ifndef MR_KVCACHE_REMOTE_REMOTE_STATS_H
#define MR_KVCACHE_REMOTE_REMOTE_STATS_H

#include "codec/histogram.h"
#include "kvcache/remote/block_frame.h"

/* X(name, metric, help): one counter, its Prometheus metric name, and the metric's HELP text. */
#define MR_REMOTE_COUNTER_LIST(X)                                                                  \
    X(LOOKUPS, "asks", "Lookups sent to Redis")                                                    \
    X(LOOKUPS_LATE, "asks_late", "Lookups that Redis did not answer in time")                      \
    X(VALUES_QUERIED, "items_asked", "Values looked up in Redis")                                  \
    X(VALUES_FOUND, "items_found", "Values found by lookups")                                      \
    X(LOADS, "loads", "Loads started")                                                             \
    X(VALUES_LOADED, "items_loaded", "Values loaded and verified")                                 \
    X(BYTES_LOADED, "bytes_loaded", "Bytes of the values loaded and verified")                     \
    X(VALUES_GONE, "items_gone", "Values found by a lookup, but missing or late when loaded")      \
    X(VALUES_SKIPPED, "items_skipped", "Values not loaded because the engine computed them first") \
    X(STORES, "stores", "Stores started")                                                          \
    X(VALUES_STORED, "items_stored", "Values written to Redis")                                    \
    X(BYTES_STORED, "bytes_stored", "Bytes of the values written to Redis")                        \
    X(VALUES_KNOWN, "items_known", "Values not written because Redis has them")                    \
    X(VALUES_FIRST_TOUCH, "items_first_touch",                                                     \
      "Values not written because this worker computed them for the first time")                   \
    X(VALUES_DROPPED, "items_dropped",                                                             \
      "Values not written: queue full, write budget spent, too late, or refused by Redis")         \
    X(BYTES_DROPPED, "bytes_dropped", "Bytes of the values not written that Redis lacks")          \
    X(REFUSALS, "refusals", "Commands that Redis refused: out of memory, no permission, read-only")

enum mr_remote_counter {
#define X(name, metric, help) MR_REMOTE_##name,
    MR_REMOTE_COUNTER_LIST(X)
#undef X
        MR_REMOTE_COUNTER_COUNT
};

struct mr_remote_queue_stats {
    uint64_t counters[MR_REMOTE_COUNTER_COUNT];
    uint64_t damaged[MR_VERDICT_COUNT]; /* slices from Redis that failed verification, by cause */
    struct mr_histogram lookup_seconds; /* duration of lookups that Redis answered */
    struct mr_histogram load_seconds;   /* duration of loads that received at least one byte */
    uint32_t operations;                /* in the queue now */
    bool refusing;                      /* Redis refused a command and has stored nothing since */
    uint64_t waiting_load_bytes, waiting_store_bytes;
};

#endif
