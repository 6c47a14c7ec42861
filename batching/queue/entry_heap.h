/* entry_heap - a binary heap of queue entries (waiting requests). Each entry stores its index in
 * the heap, so that any entry is removed in O(log n).
 *
 * Order: by deadline; by effective priority, which is priority + time waited / ageing_ns, with
 * first come, first served among equals; by the time of the next review; or by priority, and by
 * latest start within a priority. The order of two entries does not change with time, so a plain
 * heap can keep it.
 *
 * Owner: batching/queue/request_queue.h. Memory: `capacity` pointers in _open; entries are
 * borrowed. Errors: _open returns false when memory is out; pushing to a full heap asserts. */
#ifndef MR_BATCHING_QUEUE_ENTRY_HEAP_H
#define MR_BATCHING_QUEUE_ENTRY_HEAP_H

#include "batching/queue/queue_entry.h"

#include <stdbool.h>

enum mr_heap_order {
    MR_HEAP_BY_PRIORITY,
    MR_HEAP_BY_DEADLINE,
    MR_HEAP_BY_REVIEW,
    MR_HEAP_BY_SLACK
};

struct mr_entry_heap {
    struct mr_queue_entry **entries; /* [capacity] the heap: entries[0] goes first */
    uint32_t count, capacity;
    enum mr_heap_order order;
    uint64_t ageing_ns; /* waiting time worth one priority step; 0: waiting does not count */
};

bool mr_entry_heap_open(struct mr_entry_heap *heap, enum mr_heap_order order, uint32_t capacity,
                        uint64_t ageing_ns);
/* Frees the heap's array. A heap that is all zero may be closed. */
void mr_entry_heap_close(struct mr_entry_heap *heap);
void mr_entry_heap_push(struct mr_entry_heap *heap, struct mr_queue_entry *entry);
/* Removes the entry, which must be in this heap, in O(log n). */
void mr_entry_heap_remove(struct mr_entry_heap *heap, struct mr_queue_entry *entry);
/* Asserts the heap order and the index stored in each entry; O(n). */
void mr_entry_heap_check(const struct mr_entry_heap *heap);

#endif
