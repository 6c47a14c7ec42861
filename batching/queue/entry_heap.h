/* entry_heap - a binary heap of queue entries that know their place in it, so that any of them is
 * removed in O(log n).
 *
 * By effective priority: priority + waited / ageing_ns, first come first served among equals. That
 * order between two entries does not change with time, so a plain heap keeps it. Or by deadline.
 *
 * Owner:  batching/queue/request_queue.h. Memory: capacity pointers from _open on; entries are
 * borrowed. Errors: _open says false when memory is out; a full heap asserts. */
#ifndef MR_BATCHING_QUEUE_ENTRY_HEAP_H
#define MR_BATCHING_QUEUE_ENTRY_HEAP_H

#include "batching/queue/queue_entry.h"

#include <stdbool.h>

enum mr_heap_order { MR_HEAP_BY_PRIORITY, MR_HEAP_BY_DEADLINE };

struct mr_entry_heap {
    struct mr_queue_entry **entries; /* [capacity], the first one is the best */
    uint32_t count, capacity;
    enum mr_heap_order order;
    uint64_t ageing_ns; /* 0: no ageing */
};

bool mr_entry_heap_open(struct mr_entry_heap *heap, enum mr_heap_order order, uint32_t capacity,
                        uint64_t ageing_ns);
/* An all-zero heap may be closed. */
void mr_entry_heap_close(struct mr_entry_heap *heap);
void mr_entry_heap_push(struct mr_entry_heap *heap, struct mr_queue_entry *entry);
/* Must be inside. */
void mr_entry_heap_remove(struct mr_entry_heap *heap, struct mr_queue_entry *entry);
/* Asserts order and places; O(n). */
void mr_entry_heap_check(const struct mr_entry_heap *heap);

#endif
