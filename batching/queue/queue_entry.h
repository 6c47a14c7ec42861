/* queue_entry - what a request queue knows about one waiting request. The struct is embedded in the
 * caller's own record, so enqueuing allocates nothing.
 *
 * Owner: the caller sets the fields; while the entry is queued it belongs to the queue and must not
 * change or be freed. Memory: the caller's. */
#ifndef MR_BATCHING_QUEUE_QUEUE_ENTRY_H
#define MR_BATCHING_QUEUE_QUEUE_ENTRY_H

#include "codec/text.h"

#include <stdint.h>

struct mr_queue_entry {
    struct mr_text id;    /* borrowed from the caller, unchanged while queued */
    int32_t priority;     /* higher first */
    uint64_t arrival_ns;  /* monotonic */
    uint64_t deadline_ns; /* monotonic; 0: none */
    uint64_t cost_bytes;  /* KV and activations the request needs, for the budget of _take */
    uint64_t held_bytes;  /* memory of the waiting request, for the queue's bytes_max */
    uint64_t blocks;      /* KV blocks the request is predicted to need, for blocks_max */
    uint32_t tenant;      /* below tenant_count */
    /* private to the queue */
    uint32_t heap_index, deadline_index, skipped;
    uint64_t sequence;
    struct mr_queue_entry *hash_next;
};

#endif
