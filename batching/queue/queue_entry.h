/* queue_entry - the data of a request queue about one request: its id, and its place in the order
 * while it waits. The struct is a field of the request's own struct (struct mr_job), so enqueuing
 * allocates nothing.
 *
 * Owner: the caller sets the fields before _enqueue. Until _release the queue borrows the entry,
 * and the caller must not change or free it. Memory: the caller's. */
#ifndef MR_BATCHING_QUEUE_QUEUE_ENTRY_H
#define MR_BATCHING_QUEUE_QUEUE_ENTRY_H

#include "codec/hash_table.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_entry_heap;

struct mr_queue_entry {
    struct mr_text id;    /* unique among the entries of the queue; borrowed until _release */
    int32_t priority;     /* higher goes first */
    uint64_t arrival_ns;  /* monotonic time */
    uint64_t deadline_ns; /* monotonic time; 0: no deadline */
    /* memory the request takes while it waits, limited by the queue's bytes_max */
    uint64_t held_bytes;
    /* KV blocks the request is predicted to need, limited by the queue's blocks_max */
    uint64_t blocks;
    uint32_t tenant; /* index of the tenant, below tenant_count */
    /* The fields below are private to the queue. */
    uint32_t heap_index, deadline_index, slack_index;
    struct mr_entry_heap
        *slack_heap;          /* that of the tenant's heaps by slack with the entry, or NULL */
    uint64_t review_ns;       /* when the request's own time is predicted next */
    uint64_t latest_start_ns; /* of an urgent entry: deadline less its predicted own time */
    uint64_t sequence;
    bool is_waiting, is_cancelled;
    struct mr_hash_entry link; /* in the table of ids */
    struct mr_queue_entry *cancelled_next;
};

#endif
