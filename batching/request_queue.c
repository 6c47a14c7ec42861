/* Two binary heaps of entry pointers (by effective priority, by deadline) whose entries know their
 * places, and a chained hash table by id. One mutex guards all of it; every public function takes
 * it once. */
#include "batching/request_queue.h"

#include "codec/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASIDE_MAX 64u /* misfits one take looks past */
#define NOWHERE   UINT32_MAX

enum heap_order { BY_PRIORITY, BY_DEADLINE };

struct entry_heap {
    struct mr_queue_entry **entries; /* [capacity] */
    uint32_t count;
    enum heap_order order;
};

struct mr_request_queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct mr_request_queue_options options;
    struct entry_heap best, deadlines;
    struct mr_queue_entry **buckets; /* [bucket_mask + 1] */
    uint32_t bucket_mask, capacity, waiters;
    uint64_t bytes, sequence, hash_seed;
    bool is_closed, is_woken;
};

/* ---- order ---- */

/* priority + waited / ageing, compared without knowing the time: of two entries the one of higher
 * priority goes first unless it came so much later that the other's wait makes up for it. */
static bool goes_before(const struct mr_request_queue *queue, const struct mr_queue_entry *one,
                        const struct mr_queue_entry *two)
{
    if (one->priority == two->priority)
        return one->arrival_ns == two->arrival_ns ? one->sequence < two->sequence
                                                  : one->arrival_ns < two->arrival_ns;
    const struct mr_queue_entry *high = one->priority > two->priority ? one : two;
    const struct mr_queue_entry *low = high == one ? two : one;
    uint64_t steps = (uint64_t)((int64_t)high->priority - low->priority);
    bool is_high_first = queue->options.ageing_ns == 0 || high->arrival_ns <= low->arrival_ns ||
                         (high->arrival_ns - low->arrival_ns) / queue->options.ageing_ns < steps;
    return (high == one) == is_high_first;
}

static bool is_before(const struct mr_request_queue *queue, const struct entry_heap *heap,
                      const struct mr_queue_entry *one, const struct mr_queue_entry *two)
{
    if (heap->order == BY_PRIORITY) return goes_before(queue, one, two);
    return one->deadline_ns < two->deadline_ns;
}

/* ---- heap ---- */

static uint32_t *index_of(const struct entry_heap *heap, struct mr_queue_entry *entry)
{
    return heap->order == BY_PRIORITY ? &entry->heap_index : &entry->deadline_index;
}

static void place(struct entry_heap *heap, uint32_t index, struct mr_queue_entry *entry)
{
    heap->entries[index] = entry;
    *index_of(heap, entry) = index;
}

static void sift_up(const struct mr_request_queue *queue, struct entry_heap *heap, uint32_t index)
{
    struct mr_queue_entry *entry = heap->entries[index];
    while (index > 0 && is_before(queue, heap, entry, heap->entries[(index - 1) / 2])) {
        place(heap, index, heap->entries[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    place(heap, index, entry);
}

static void sift_down(const struct mr_request_queue *queue, struct entry_heap *heap, uint32_t index)
{
    struct mr_queue_entry *entry = heap->entries[index];
    for (uint32_t child; (child = 2 * index + 1) < heap->count; index = child) {
        if (child + 1 < heap->count &&
            is_before(queue, heap, heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!is_before(queue, heap, heap->entries[child], entry)) break;
        place(heap, index, heap->entries[child]);
    }
    place(heap, index, entry);
}

static void heap_push(const struct mr_request_queue *queue, struct entry_heap *heap,
                      struct mr_queue_entry *entry)
{
    MR_ASSERT(heap->count < queue->capacity);
    place(heap, heap->count++, entry);
    sift_up(queue, heap, heap->count - 1);
}

static void heap_remove(const struct mr_request_queue *queue, struct entry_heap *heap,
                        struct mr_queue_entry *entry)
{
    uint32_t index = *index_of(heap, entry);
    MR_ASSERT(index < heap->count && heap->entries[index] == entry);
    *index_of(heap, entry) = NOWHERE;
    struct mr_queue_entry *last = heap->entries[--heap->count];
    if (last == entry) return;
    place(heap, index, last);
    sift_up(queue, heap, index);
    sift_down(queue, heap, *index_of(heap, last));
}

/* ---- ids ---- */

/* FNV-1a from a start that differs between processes, so that ids cannot be chosen to collide. */
static struct mr_queue_entry **bucket_of(const struct mr_request_queue *queue, struct mr_text id)
{
    uint64_t hash = queue->hash_seed;
    for (size_t i = 0; i < id.length; i++)
        hash = (hash ^ (unsigned char)id.bytes[i]) * 1099511628211u;
    return &queue->buckets[(hash ^ (hash >> 32)) & queue->bucket_mask];
}

static struct mr_queue_entry *find(const struct mr_request_queue *queue, struct mr_text id)
{
    struct mr_queue_entry *entry = *bucket_of(queue, id);
    while (entry != NULL &&
           (entry->id.length != id.length || memcmp(entry->id.bytes, id.bytes, id.length) != 0))
        entry = entry->hash_next;
    return entry;
}

/* ---- in and out, the mutex held ---- */

static void insert(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    struct mr_queue_entry **bucket = bucket_of(queue, entry->id);
    entry->hash_next = *bucket;
    *bucket = entry;
    heap_push(queue, &queue->best, entry);
    entry->deadline_index = NOWHERE;
    if (entry->deadline_ns != 0) heap_push(queue, &queue->deadlines, entry);
    queue->bytes += entry->held_bytes;
    if (queue->waiters > 0) pthread_cond_signal(&queue->changed);
}

static struct mr_queue_entry *extract(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    if (entry == NULL) return NULL;
    struct mr_queue_entry **link = bucket_of(queue, entry->id);
    while (*link != entry)
        link = &(*link)->hash_next;
    *link = entry->hash_next;
    entry->hash_next = NULL;
    heap_remove(queue, &queue->best, entry);
    if (entry->deadline_ns != 0) heap_remove(queue, &queue->deadlines, entry);
    queue->bytes -= entry->held_bytes;
    return entry;
}

static struct mr_queue_entry *top(const struct mr_request_queue *queue)
{
    return queue->best.count > 0 ? queue->best.entries[0] : NULL;
}

/* ---- life ---- */

static enum mr_status make_tables(struct mr_request_queue *queue)
{
    uint32_t buckets = 16;
    while (buckets < queue->capacity && buckets < UINT32_MAX / 4)
        buckets *= 2;
    queue->bucket_mask = buckets - 1;
    queue->buckets = calloc(buckets, sizeof(struct mr_queue_entry *));
    queue->best.entries = calloc(queue->capacity, sizeof(struct mr_queue_entry *));
    queue->deadlines.entries = calloc(queue->capacity, sizeof(struct mr_queue_entry *));
    bool made =
        queue->buckets != NULL && queue->best.entries != NULL && queue->deadlines.entries != NULL;
    return made ? MR_OK : MR_NOMEM;
}

static void free_tables(struct mr_request_queue *queue)
{
    free(queue->deadlines.entries);
    free(queue->best.entries);
    free(queue->buckets);
}

static bool make_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) return false;
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made;
}

enum mr_status mr_request_queue_create(struct mr_request_queue **out,
                                       const struct mr_request_queue_options *options,
                                       struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(options->count_max > 0);
    struct mr_request_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) goto fail;
    queue->options = *options;
    queue->capacity = options->count_max + MR_QUEUE_RETURNS_MAX;
    queue->deadlines.order = BY_DEADLINE;
    queue->hash_seed = 14695981039346656037u ^ (uintptr_t)queue;
    if (make_tables(queue) != MR_OK) goto fail_tables;
    if (pthread_mutex_init(&queue->mutex, NULL) != 0) goto fail_tables;
    if (!make_condition(&queue->changed)) goto fail_mutex;
    *out = queue;
    return MR_OK;

fail_mutex:
    pthread_mutex_destroy(&queue->mutex);
fail_tables:
    free_tables(queue);
    free(queue);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for a queue of %u requests", options->count_max);
}

void mr_request_queue_destroy(struct mr_request_queue *queue)
{
    if (queue == NULL) return;
    MR_ASSERT(queue->best.count == 0 && queue->waiters == 0);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->mutex);
    free_tables(queue);
    free(queue);
}

static void lock(struct mr_request_queue *queue)
{
    MR_ASSERT(pthread_mutex_lock(&queue->mutex) == 0);
}

static void unlock(struct mr_request_queue *queue)
{
    MR_ASSERT(pthread_mutex_unlock(&queue->mutex) == 0);
}

/* ---- in ---- */

static bool has_room(const struct mr_request_queue *queue, uint64_t bytes)
{
    if (queue->best.count == 0) return true;
    return queue->best.count < queue->options.count_max && bytes <= queue->options.bytes_max &&
           queue->bytes <= queue->options.bytes_max - bytes;
}

enum mr_status mr_request_queue_enqueue(struct mr_request_queue *queue,
                                        struct mr_queue_entry *entry)
{
    enum mr_status status = MR_OK;
    lock(queue);
    if (queue->is_closed)
        status = MR_CLOSED;
    else if (find(queue, entry->id) != NULL)
        status = MR_INVALID_REQUEST;
    else if (!has_room(queue, entry->held_bytes))
        status = MR_FULL;
    if (status == MR_OK) {
        entry->sequence = ++queue->sequence;
        entry->skipped = 0;
        insert(queue, entry);
    }
    unlock(queue);
    return status;
}

void mr_request_queue_return(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    lock(queue);
    MR_ASSERT(entry->sequence != 0 && find(queue, entry->id) == NULL);
    insert(queue, entry);
    unlock(queue);
}

/* ---- out ---- */

struct mr_queue_entry *mr_request_queue_dequeue(struct mr_request_queue *queue)
{
    lock(queue);
    struct mr_queue_entry *entry = extract(queue, top(queue));
    unlock(queue);
    return entry;
}

/* False when the time has passed. */
static bool sleep_until(struct mr_request_queue *queue, uint64_t until_ns)
{
    int result;
    queue->waiters++;
    if (until_ns == UINT64_MAX) {
        result = pthread_cond_wait(&queue->changed, &queue->mutex);
    } else {
        struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
                                 .tv_nsec = (long)(until_ns % 1000000000u)};
        result = pthread_cond_timedwait(&queue->changed, &queue->mutex, &until);
    }
    queue->waiters--;
    return result == 0;
}

/* The mutex held. True when there is an entry. */
static bool await_entry(struct mr_request_queue *queue, uint64_t until_ns)
{
    bool in_time = true;
    for (;;) {
        if (queue->best.count > 0) return true;
        if (queue->is_closed || !in_time) return false;
        if (queue->is_woken) {
            queue->is_woken = false;
            return false;
        }
        in_time = sleep_until(queue, until_ns);
    }
}

struct mr_queue_entry *mr_request_queue_dequeue_until(struct mr_request_queue *queue,
                                                      uint64_t until_ns)
{
    lock(queue);
    struct mr_queue_entry *entry = await_entry(queue, until_ns) ? extract(queue, top(queue)) : NULL;
    unlock(queue);
    return entry;
}

bool mr_request_queue_wait(struct mr_request_queue *queue, uint64_t until_ns)
{
    lock(queue);
    bool is_there = await_entry(queue, until_ns);
    /* The signal meant somebody who takes; this call has not. */
    if (is_there && queue->waiters > 0) pthread_cond_signal(&queue->changed);
    unlock(queue);
    return is_there;
}

void mr_request_queue_wake(struct mr_request_queue *queue)
{
    lock(queue);
    queue->is_woken = true;
    pthread_cond_signal(&queue->changed);
    unlock(queue);
}

/* Puts the misfits back; those that saw a later one taken have been passed over once more. */
static void put_back(struct mr_request_queue *queue, struct mr_queue_entry **aside,
                     const uint32_t *taken_before, uint32_t aside_count, uint32_t taken)
{
    for (uint32_t i = 0; i < aside_count; i++) {
        if (taken_before[i] < taken) aside[i]->skipped++;
        insert(queue, aside[i]);
    }
}

uint32_t mr_request_queue_take(struct mr_request_queue *queue, uint32_t count_max,
                               uint64_t bytes_budget, struct mr_queue_entry **out)
{
    struct mr_queue_entry *aside[ASIDE_MAX];
    uint32_t taken_before[ASIDE_MAX], aside_count = 0, taken = 0;
    lock(queue);
    while (taken < count_max && aside_count < ASIDE_MAX && queue->best.count > 0) {
        struct mr_queue_entry *entry = top(queue);
        bool fits = entry->cost_bytes <= bytes_budget;
        if (!fits && entry->skipped >= MR_QUEUE_SKIPS_MAX) break;
        (void)extract(queue, entry);
        if (fits) {
            bytes_budget -= entry->cost_bytes;
            out[taken++] = entry;
        } else {
            taken_before[aside_count] = taken;
            aside[aside_count++] = entry;
        }
    }
    put_back(queue, aside, taken_before, aside_count, taken);
    unlock(queue);
    return taken;
}

struct mr_queue_entry *mr_request_queue_remove(struct mr_request_queue *queue, struct mr_text id)
{
    lock(queue);
    struct mr_queue_entry *entry = extract(queue, find(queue, id));
    unlock(queue);
    return entry;
}

struct mr_queue_entry *mr_request_queue_expired(struct mr_request_queue *queue, uint64_t now_ns)
{
    lock(queue);
    struct mr_queue_entry *first = queue->deadlines.count > 0 ? queue->deadlines.entries[0] : NULL;
    if (first != NULL && first->deadline_ns > now_ns) first = NULL;
    (void)extract(queue, first);
    unlock(queue);
    return first;
}

struct mr_queue_entry *mr_request_queue_drain(struct mr_request_queue *queue)
{
    lock(queue);
    struct mr_queue_entry *last =
        queue->best.count > 0 ? queue->best.entries[queue->best.count - 1] : NULL;
    (void)extract(queue, last);
    unlock(queue);
    return last;
}

/* ---- questions ---- */

bool mr_request_queue_contains(struct mr_request_queue *queue, struct mr_text id)
{
    lock(queue);
    bool is_here = find(queue, id) != NULL;
    unlock(queue);
    return is_here;
}

uint64_t mr_request_queue_next_deadline(struct mr_request_queue *queue)
{
    lock(queue);
    uint64_t next = queue->deadlines.count > 0 ? queue->deadlines.entries[0]->deadline_ns : 0;
    unlock(queue);
    return next;
}

bool mr_request_queue_has_room(struct mr_request_queue *queue, uint64_t held_bytes)
{
    lock(queue);
    bool room = !queue->is_closed && has_room(queue, held_bytes);
    unlock(queue);
    return room;
}

uint32_t mr_request_queue_count(struct mr_request_queue *queue)
{
    lock(queue);
    uint32_t count = queue->best.count;
    unlock(queue);
    return count;
}

uint64_t mr_request_queue_bytes(struct mr_request_queue *queue)
{
    lock(queue);
    uint64_t bytes = queue->bytes;
    unlock(queue);
    return bytes;
}

bool mr_request_queue_is_empty(struct mr_request_queue *queue)
{
    return mr_request_queue_count(queue) == 0;
}

void mr_request_queue_close(struct mr_request_queue *queue)
{
    lock(queue);
    queue->is_closed = true;
    pthread_cond_broadcast(&queue->changed);
    unlock(queue);
}

static void check_heap(const struct mr_request_queue *queue, const struct entry_heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        MR_ASSERT(*index_of(heap, heap->entries[i]) == i);
        MR_ASSERT(i == 0 || !is_before(queue, heap, heap->entries[i], heap->entries[(i - 1) / 2]));
    }
}

void mr_request_queue_check(struct mr_request_queue *queue)
{
    lock(queue);
    check_heap(queue, &queue->best);
    check_heap(queue, &queue->deadlines);
    uint64_t bytes = 0;
    uint32_t with_deadline = 0, hashed = 0;
    for (uint32_t i = 0; i < queue->best.count; i++) {
        struct mr_queue_entry *entry = queue->best.entries[i];
        MR_ASSERT(find(queue, entry->id) == entry);
        bytes += entry->held_bytes;
        with_deadline += entry->deadline_ns != 0;
    }
    for (uint32_t i = 0; i <= queue->bucket_mask; i++)
        for (struct mr_queue_entry *entry = queue->buckets[i]; entry; entry = entry->hash_next)
            hashed++;
    MR_ASSERT(bytes == queue->bytes && with_deadline == queue->deadlines.count);
    MR_ASSERT(hashed == queue->best.count);
    unlock(queue);
}
