/* queue_entry - what a request queue knows about one waiting request. The struct is a field of the
 * caller's own struct, so enqueuing allocates nothing.
 *
 * Owner: the caller sets the fields; while the entry is queued it belongs to the queue, and the
 * caller must not change or free it. Memory: the caller's. */
#ifndef MR_BATCHING_QUEUE_QUEUE_ENTRY_H
#define MR_BATCHING_QUEUE_QUEUE_ENTRY_H

#include "codec/text.h"

#include <stdint.h>

struct mr_queue_entry {
    struct mr_text id;    /* unique among the queued entries; borrowed, unchanged while queued */
    int32_t priority;     /* higher goes first */
    uint64_t arrival_ns;  /* monotonic time */
    uint64_t deadline_ns; /* monotonic time; 0: no deadline */
    /* KV and activation bytes the request needs; mr_request_queue_take() limits their sum */
    uint64_t cost_bytes;
    /* memory the request takes while it waits, limited by the queue's bytes_max */
    uint64_t held_bytes;
    /* KV blocks the request is predicted to need, limited by the queue's blocks_max */
    uint64_t blocks;
    uint32_t tenant; /* index of the tenant, below tenant_count */
    /* The fields below are private to the queue. */
    uint32_t heap_index, deadline_index, skipped;
    uint64_t sequence;
    struct mr_queue_entry *hash_next;
};

#endif
