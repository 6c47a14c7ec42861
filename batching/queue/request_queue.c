/* A heap by effective priority and two heaps by slack for each tenant, one heap by deadline for all
 * waiting requests, a hash table by id, and a list of the cancelled requests. One mutex guards all
 * of them, and every public function locks it once. */
#include "batching/queue/request_queue.h"

#include "batching/queue/entry_heap.h"
#include "codec/check.h"
#include "codec/hash.h"
#include "codec/hash_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One tenant's waiting requests and the tenant's parts of the queue's bounds. */
struct tenant_queue {
    struct mr_entry_heap best;
    /* Of its entries, those with a deadline: urgent ones by latest start, others by the time of
     * their next review. Neither has those that cannot meet their deadline. */
    struct mr_entry_heap urgent, reviews;
    bool overtook; /* the entry dequeued last was an urgent one that was not first in `best` */
    uint32_t count_max;
    uint64_t bytes, bytes_max, blocks, blocks_max;
};

struct mr_request_queue {
    pthread_mutex_t mutex;
    struct mr_request_queue_options options;
    struct mr_fair_share share;
    struct tenant_queue *tenants; /* [share.tenant_count] queue of each tenant */
    struct mr_entry_heap deadlines;
    struct mr_hash_table ids; /* every entry, by request id */
    /* cancelled entries that _cancelled has not returned yet, the oldest first */
    struct mr_queue_entry *first_cancelled, **last_cancelled;
    uint32_t count, capacity; /* waiting entries, and the most of them */
    uint64_t sequence, hash_seed;
    bool is_checked; /* the ids have not changed since mr_request_queue_check counted them */
};

static void lock(struct mr_request_queue *queue)
{
    MR_ASSERT(pthread_mutex_lock(&queue->mutex) == 0);
}

static void unlock(struct mr_request_queue *queue)
{
    MR_ASSERT(pthread_mutex_unlock(&queue->mutex) == 0);
}

/* ---- ids ---- */

static uint64_t hash_of(const struct mr_request_queue *queue, struct mr_text id)
{
    return mr_hash_bytes(queue->hash_seed, id.bytes, id.length);
}

static bool has_id(const struct mr_hash_entry *link, const void *id)
{
    return mr_text_equal(MR_HASH_ITEM(link, const struct mr_queue_entry, link)->id,
                         *(const struct mr_text *)id);
}

static struct mr_queue_entry *find(const struct mr_request_queue *queue, struct mr_text id)
{
    struct mr_hash_entry *link = mr_hash_table_find(&queue->ids, hash_of(queue, id), has_id, &id);
    return link ? MR_HASH_ITEM(link, struct mr_queue_entry, link) : NULL;
}

static void add_id(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    mr_hash_table_add(&queue->ids, &entry->link, hash_of(queue, entry->id));
    queue->is_checked = false;
}

static void remove_id(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    mr_hash_table_remove(&queue->ids, &entry->link);
    queue->is_checked = false;
}

/* ---- cancelled entries, under mutex ---- */

static void add_cancelled(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    entry->is_cancelled = true;
    entry->cancelled_next = NULL;
    *queue->last_cancelled = entry;
    queue->last_cancelled = &entry->cancelled_next;
}

/* Removes the entry from the list if it is there. The list is short: the engine empties it in each
 * step. */
static void remove_cancelled(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    struct mr_queue_entry **link = &queue->first_cancelled;
    while (*link != NULL && *link != entry)
        link = &(*link)->cancelled_next;
    if (*link == NULL) return;
    *link = entry->cancelled_next;
    if (*link == NULL) queue->last_cancelled = link;
}

/* ---- slack, under mutex ---- */

/* heap: NULL: none. */
static void move_by_slack(struct mr_queue_entry *entry, struct mr_entry_heap *heap)
{
    if (entry->slack_heap != NULL) mr_entry_heap_remove(entry->slack_heap, entry);
    entry->slack_heap = heap;
    if (heap != NULL) mr_entry_heap_push(heap, entry);
}

/* own_ns: predicted own time. */
static void review(struct tenant_queue *own, struct mr_queue_entry *entry, uint64_t now_ns,
                   uint64_t own_ns)
{
    const uint64_t left_ns = entry->deadline_ns > now_ns ? entry->deadline_ns - now_ns : 0;
    move_by_slack(entry, NULL);
    if (own_ns > left_ns) return;
    entry->latest_start_ns = entry->deadline_ns - own_ns;
    const uint64_t slack_ns = left_ns - own_ns;
    const bool is_urgent = slack_ns <= own_ns;
    if (!is_urgent) entry->review_ns = now_ns + (slack_ns - own_ns) / 2 + 1;
    move_by_slack(entry, is_urgent ? &own->urgent : &own->reviews);
}

void mr_request_queue_update_urgent(struct mr_request_queue *queue, uint64_t now_ns,
                                    uint64_t (*own_ns)(void *context, struct mr_queue_entry *entry),
                                    void *context)
{
    lock(queue);
    for (uint32_t i = 0; i < queue->share.tenant_count; i++) {
        struct tenant_queue *own = &queue->tenants[i];
        struct mr_queue_entry **urgent = own->urgent.entries, **due = own->reviews.entries;
        while (own->reviews.count > 0 && due[0]->review_ns <= now_ns)
            review(own, due[0], now_ns, own_ns(context, due[0]));
        while (own->urgent.count > 0 && urgent[0]->latest_start_ns < now_ns)
            review(own, urgent[0], now_ns, own_ns(context, urgent[0]));
    }
    unlock(queue);
}

/* ---- insert and extract, under mutex ---- */

static void insert(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    struct tenant_queue *own = &queue->tenants[entry->tenant];
    mr_entry_heap_push(&own->best, entry);
    entry->slack_heap = NULL;
    entry->review_ns = 0;
    if (entry->deadline_ns != 0) mr_entry_heap_push(&queue->deadlines, entry);
    if (entry->deadline_ns != 0) move_by_slack(entry, &own->reviews);
    own->bytes += entry->held_bytes;
    own->blocks += entry->blocks;
    entry->is_waiting = true;
    queue->count++;
}

static struct mr_queue_entry *extract(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    if (entry == NULL) return NULL;
    struct tenant_queue *own = &queue->tenants[entry->tenant];
    mr_entry_heap_remove(&own->best, entry);
    if (entry->deadline_ns != 0) mr_entry_heap_remove(&queue->deadlines, entry);
    move_by_slack(entry, NULL);
    own->bytes -= entry->held_bytes;
    own->blocks -= entry->blocks;
    entry->is_waiting = false;
    queue->count--;
    mr_fair_share_leave(&queue->share, entry->tenant);
    return entry;
}

/* ---- creation ---- */

/* Divides the queue's bounds among the tenants by weight; each tenant may enqueue at least one
 * entry. */
static bool make_tenants(struct mr_request_queue *queue)
{
    const struct mr_request_queue_options *options = &queue->options;
    const struct mr_fair_share *share = &queue->share;
    uint64_t all = 0;
    for (uint32_t i = 0; i < share->tenant_count; i++)
        all += share->weights[i];
    queue->tenants = calloc(share->tenant_count, sizeof *queue->tenants);
    if (queue->tenants == NULL) return false;
    for (uint32_t i = 0; i < share->tenant_count; i++) {
        struct tenant_queue *own = &queue->tenants[i];
        double part = (double)share->weights[i] / (double)all;
        own->count_max = (uint32_t)((double)options->count_max * part);
        if (own->count_max == 0) own->count_max = 1;
        own->bytes_max =
            part < 1 ? (uint64_t)((double)options->bytes_max * part) : options->bytes_max;
        own->blocks_max = (uint64_t)((double)options->blocks_max * part);
        const uint32_t capacity = own->count_max + MR_QUEUE_RETURNS_MAX;
        queue->capacity += capacity;
        if (!mr_entry_heap_open(&own->best, MR_HEAP_BY_PRIORITY, capacity, options->ageing_ns) ||
            !mr_entry_heap_open(&own->urgent, MR_HEAP_BY_SLACK, capacity, 0) ||
            !mr_entry_heap_open(&own->reviews, MR_HEAP_BY_REVIEW, capacity, 0))
            return false;
    }
    return true;
}

static enum mr_status make_tables(struct mr_request_queue *queue)
{
    bool made = make_tenants(queue) && mr_hash_table_create(&queue->ids, queue->capacity) &&
                mr_entry_heap_open(&queue->deadlines, MR_HEAP_BY_DEADLINE, queue->capacity, 0);
    return made ? MR_OK : MR_NOMEM;
}

static void free_tables(struct mr_request_queue *queue)
{
    for (uint32_t i = 0; queue->tenants != NULL && i < queue->share.tenant_count; i++) {
        mr_entry_heap_close(&queue->tenants[i].best);
        mr_entry_heap_close(&queue->tenants[i].urgent);
        mr_entry_heap_close(&queue->tenants[i].reviews);
    }
    mr_entry_heap_close(&queue->deadlines);
    free(queue->tenants);
    mr_hash_table_destroy(&queue->ids);
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
    queue->last_cancelled = &queue->first_cancelled;
    mr_fair_share_init(&queue->share, options->tenant_count, options->tenant_weights);
    /* The seed differs between processes, so that clients cannot choose ids that collide in the
     * hash table. */
    queue->hash_seed = MR_HASH_START ^ (uintptr_t)queue;
    if (make_tables(queue) != MR_OK) goto fail_tables;
    if (pthread_mutex_init(&queue->mutex, NULL) != 0) goto fail_tables;
    *out = queue;
    return MR_OK;

fail_tables:
    free_tables(queue);
    free(queue);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for a queue of %u requests", options->count_max);
}

void mr_request_queue_destroy(struct mr_request_queue *queue)
{
    if (queue == NULL) return;
    MR_ASSERT(queue->count == 0 && queue->ids.count == 0);
    pthread_mutex_destroy(&queue->mutex);
    free_tables(queue);
    free(queue);
}

/* ---- enqueue, cancel, release ---- */

static bool has_room(const struct tenant_queue *own, uint64_t bytes, uint64_t blocks)
{
    if (own->best.count == 0) return true;
    bool counts_blocks = own->blocks_max > 0;
    return own->best.count < own->count_max && bytes <= own->bytes_max &&
           own->bytes <= own->bytes_max - bytes &&
           (!counts_blocks || own->blocks + blocks <= own->blocks_max);
}

enum mr_status mr_request_queue_enqueue(struct mr_request_queue *queue,
                                        struct mr_queue_entry *entry)
{
    enum mr_status status = MR_OK;
    MR_ASSERT(entry->tenant < queue->share.tenant_count);
    lock(queue);
    if (find(queue, entry->id) != NULL)
        status = MR_INVALID_REQUEST;
    else if (!has_room(&queue->tenants[entry->tenant], entry->held_bytes, entry->blocks))
        status = MR_FULL;
    if (status == MR_OK) {
        entry->sequence = ++queue->sequence;
        entry->is_cancelled = false;
        mr_fair_share_enter(&queue->share, entry->tenant);
        add_id(queue, entry);
        insert(queue, entry);
    }
    unlock(queue);
    return status;
}

void mr_request_queue_return(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    lock(queue);
    MR_ASSERT(!entry->is_waiting && find(queue, entry->id) == entry);
    mr_fair_share_return(&queue->share, entry->tenant);
    insert(queue, entry);
    unlock(queue);
}

bool mr_request_queue_cancel(struct mr_request_queue *queue, struct mr_text id)
{
    lock(queue);
    struct mr_queue_entry *entry = find(queue, id);
    if (entry != NULL && !entry->is_cancelled) add_cancelled(queue, entry);
    unlock(queue);
    return entry != NULL;
}

struct mr_queue_entry *mr_request_queue_cancelled(struct mr_request_queue *queue)
{
    lock(queue);
    struct mr_queue_entry *entry = queue->first_cancelled;
    if (entry != NULL) remove_cancelled(queue, entry);
    if (entry != NULL && entry->is_waiting) (void)extract(queue, entry);
    unlock(queue);
    return entry;
}

void mr_request_queue_release(struct mr_request_queue *queue, struct mr_queue_entry *entry)
{
    lock(queue);
    MR_ASSERT(!entry->is_waiting && find(queue, entry->id) == entry);
    if (entry->is_cancelled) remove_cancelled(queue, entry);
    remove_id(queue, entry);
    unlock(queue);
}

/* ---- dequeue ---- */

static struct mr_queue_entry *first_of(const struct mr_request_queue *queue, uint32_t tenant)
{
    const struct tenant_queue *own = &queue->tenants[tenant];
    if (own->best.count == 0) return NULL;
    struct mr_queue_entry *best = own->best.entries[0];
    if (own->urgent.count == 0 || own->overtook) return best;
    struct mr_queue_entry *urgent = own->urgent.entries[0];
    return urgent->priority >= best->priority ? urgent : best;
}

static struct mr_queue_entry *take_of(struct mr_request_queue *queue, uint32_t tenant)
{
    struct tenant_queue *own = &queue->tenants[tenant];
    struct mr_queue_entry *entry = first_of(queue, tenant);
    own->overtook = entry != NULL && entry != own->best.entries[0];
    return extract(queue, entry);
}

struct mr_queue_entry *mr_request_queue_dequeue(struct mr_request_queue *queue)
{
    lock(queue);
    const uint32_t tenant = mr_fair_share_next(&queue->share);
    struct mr_queue_entry *entry = tenant == MR_TENANT_NONE ? NULL : take_of(queue, tenant);
    unlock(queue);
    return entry;
}

struct mr_queue_entry *mr_request_queue_dequeue_of(struct mr_request_queue *queue, uint32_t tenant)
{
    lock(queue);
    struct mr_queue_entry *entry = take_of(queue, tenant);
    unlock(queue);
    return entry;
}

struct mr_queue_entry *mr_request_queue_first_of(struct mr_request_queue *queue, uint32_t tenant)
{
    lock(queue);
    struct mr_queue_entry *entry = first_of(queue, tenant);
    unlock(queue);
    return entry;
}

struct mr_queue_entry *mr_request_queue_expired(struct mr_request_queue *queue, uint64_t now_ns)
{
    lock(queue);
    struct mr_queue_entry *due = queue->deadlines.count > 0 ? queue->deadlines.entries[0] : NULL;
    if (due != NULL && due->deadline_ns > now_ns) due = NULL;
    (void)extract(queue, due);
    unlock(queue);
    return due;
}

struct mr_queue_entry *mr_request_queue_drain(struct mr_request_queue *queue)
{
    struct mr_queue_entry *last = NULL;
    lock(queue);
    for (uint32_t i = 0; last == NULL && i < queue->share.tenant_count; i++) {
        const struct mr_entry_heap *best = &queue->tenants[i].best;
        if (best->count > 0) last = best->entries[best->count - 1];
    }
    (void)extract(queue, last);
    unlock(queue);
    return last;
}

/* ---- state ---- */

uint64_t mr_request_queue_room(struct mr_request_queue *queue)
{
    uint64_t room = 0;
    lock(queue);
    for (uint32_t i = 0; i < queue->share.tenant_count; i++)
        if (has_room(&queue->tenants[i], 1, 1)) room |= (uint64_t)1 << i;
    unlock(queue);
    return room;
}

void mr_request_queue_charge(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost)
{
    if (queue->share.tenant_count == 1) return;
    lock(queue);
    mr_fair_share_charge(&queue->share, tenant, cost);
    unlock(queue);
}

void mr_request_queue_refund(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost)
{
    if (queue->share.tenant_count == 1) return;
    lock(queue);
    mr_fair_share_refund(&queue->share, tenant, cost);
    unlock(queue);
}

uint64_t mr_request_queue_waiting(struct mr_request_queue *queue)
{
    uint64_t waiting = 0;
    lock(queue);
    for (uint32_t i = 0; i < queue->share.tenant_count; i++)
        if (queue->share.waiting[i] > 0) waiting |= (uint64_t)1 << i;
    unlock(queue);
    return waiting;
}

void mr_request_queue_divide(struct mr_request_queue *queue, uint32_t count_max,
                             const uint32_t *taken, uint32_t *parts)
{
    lock(queue);
    mr_fair_share_divide(&queue->share, count_max, taken, parts);
    unlock(queue);
}

bool mr_request_queue_is_behind(struct mr_request_queue *queue, uint32_t one, uint32_t two,
                                uint64_t allowance)
{
    lock(queue);
    bool is_behind = mr_fair_share_is_behind(&queue->share, one, two, allowance);
    unlock(queue);
    return is_behind;
}

uint32_t mr_request_queue_count(struct mr_request_queue *queue)
{
    lock(queue);
    uint32_t count = queue->count;
    unlock(queue);
    return count;
}

bool mr_request_queue_is_empty(struct mr_request_queue *queue)
{
    return mr_request_queue_count(queue) == 0;
}

/* Checks one tenant's queue and adds its number of entries to *count, and of entries with a
 * deadline to *with_deadline. */
static void check_tenant(const struct mr_request_queue *queue, uint32_t tenant, uint32_t *count,
                         uint32_t *with_deadline)
{
    const struct tenant_queue *own = &queue->tenants[tenant];
    uint64_t bytes = 0, blocks = 0;
    uint32_t by_slack = 0;
    mr_entry_heap_check(&own->best);
    mr_entry_heap_check(&own->urgent);
    mr_entry_heap_check(&own->reviews);
    for (uint32_t i = 0; i < own->best.count; i++) {
        const struct mr_queue_entry *entry = own->best.entries[i];
        MR_ASSERT(entry->tenant == tenant && entry->is_waiting);
        MR_ASSERT(find(queue, entry->id) == entry);
        bytes += entry->held_bytes;
        blocks += entry->blocks;
        *with_deadline += entry->deadline_ns != 0;
        by_slack += entry->slack_heap != NULL;
        MR_ASSERT(entry->deadline_ns != 0 || entry->slack_heap == NULL);
    }
    MR_ASSERT(by_slack == own->urgent.count + own->reviews.count);
    MR_ASSERT(bytes == own->bytes && blocks == own->blocks);
    MR_ASSERT(own->best.count == queue->share.waiting[tenant]);
    *count += own->best.count;
}

void mr_request_queue_check(struct mr_request_queue *queue)
{
    lock(queue);
    mr_entry_heap_check(&queue->deadlines);
    uint32_t count = 0, with_deadline = 0;
    for (uint32_t i = 0; i < queue->share.tenant_count; i++)
        check_tenant(queue, i, &count, &with_deadline);
    MR_ASSERT(with_deadline == queue->deadlines.count);
    MR_ASSERT(count == queue->count && count <= queue->ids.count);
    if (!queue->is_checked) mr_hash_table_check(&queue->ids);
    queue->is_checked = true;
    unlock(queue);
}
