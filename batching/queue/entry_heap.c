#include "batching/queue/entry_heap.h"

#include "codec/check.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX

bool mr_entry_heap_open(struct mr_entry_heap *heap, enum mr_heap_order order, uint32_t capacity,
                        uint64_t ageing_ns)
{
    *heap = (struct mr_entry_heap){.capacity = capacity, .order = order, .ageing_ns = ageing_ns};
    heap->entries = calloc(capacity, sizeof(struct mr_queue_entry *));
    return heap->entries != NULL;
}

void mr_entry_heap_close(struct mr_entry_heap *heap)
{
    free(heap->entries);
    heap->entries = NULL;
}

/* True when entry `one` goes before `two`: it has the higher priority + time waited / ageing. The
 * current time cancels out of this comparison: the entry of higher priority goes first, unless it
 * arrived so much later that the other entry's longer wait outweighs the difference. */
static bool goes_before(uint64_t ageing_ns, const struct mr_queue_entry *one,
                        const struct mr_queue_entry *two)
{
    if (one->priority == two->priority)
        return one->arrival_ns == two->arrival_ns ? one->sequence < two->sequence
                                                  : one->arrival_ns < two->arrival_ns;
    const struct mr_queue_entry *high = one->priority > two->priority ? one : two;
    const struct mr_queue_entry *low = high == one ? two : one;
    uint64_t steps = (uint64_t)((int64_t)high->priority - low->priority);
    bool is_high_first = ageing_ns == 0 || high->arrival_ns <= low->arrival_ns ||
                         (high->arrival_ns - low->arrival_ns) / ageing_ns < steps;
    return (high == one) == is_high_first;
}

static bool is_before(const struct mr_entry_heap *heap, const struct mr_queue_entry *one,
                      const struct mr_queue_entry *two)
{
    if (heap->order == MR_HEAP_BY_PRIORITY) return goes_before(heap->ageing_ns, one, two);
    if (heap->order == MR_HEAP_BY_DEADLINE) return one->deadline_ns < two->deadline_ns;
    if (heap->order == MR_HEAP_BY_REVIEW) return one->review_ns < two->review_ns;
    if (one->priority != two->priority) return one->priority > two->priority;
    return one->latest_start_ns < two->latest_start_ns;
}

static uint32_t *index_of(const struct mr_entry_heap *heap, struct mr_queue_entry *entry)
{
    if (heap->order == MR_HEAP_BY_PRIORITY) return &entry->heap_index;
    return heap->order == MR_HEAP_BY_DEADLINE ? &entry->deadline_index : &entry->slack_index;
}

static void place(struct mr_entry_heap *heap, uint32_t index, struct mr_queue_entry *entry)
{
    heap->entries[index] = entry;
    *index_of(heap, entry) = index;
}

static void sift_up(struct mr_entry_heap *heap, uint32_t index)
{
    struct mr_queue_entry *entry = heap->entries[index];
    while (index > 0 && is_before(heap, entry, heap->entries[(index - 1) / 2])) {
        place(heap, index, heap->entries[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    place(heap, index, entry);
}

static void sift_down(struct mr_entry_heap *heap, uint32_t index)
{
    struct mr_queue_entry *entry = heap->entries[index];
    for (uint32_t child; (child = 2 * index + 1) < heap->count; index = child) {
        if (child + 1 < heap->count &&
            is_before(heap, heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!is_before(heap, heap->entries[child], entry)) break;
        place(heap, index, heap->entries[child]);
    }
    place(heap, index, entry);
}

void mr_entry_heap_push(struct mr_entry_heap *heap, struct mr_queue_entry *entry)
{
    MR_ASSERT(heap->count < heap->capacity);
    place(heap, heap->count++, entry);
    sift_up(heap, heap->count - 1);
}

void mr_entry_heap_remove(struct mr_entry_heap *heap, struct mr_queue_entry *entry)
{
    uint32_t index = *index_of(heap, entry);
    MR_ASSERT(index < heap->count && heap->entries[index] == entry);
    *index_of(heap, entry) = NOWHERE;
    struct mr_queue_entry *last = heap->entries[--heap->count];
    if (last == entry) return;
    place(heap, index, last);
    sift_up(heap, index);
    sift_down(heap, *index_of(heap, last));
}

void mr_entry_heap_check(const struct mr_entry_heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        MR_ASSERT(*index_of(heap, heap->entries[i]) == i);
        MR_ASSERT(i == 0 || !is_before(heap, heap->entries[i], heap->entries[(i - 1) / 2]));
    }
}
