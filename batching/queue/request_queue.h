/* request_queue - requests that wait for the engine, shared fairly between tenants and in priority
 * order within each tenant.
 *
 * Between tenants: the one that was served least goes first (batching/queue/fair_share.h). Each
 * tenant has its own part of the places, the bytes and the blocks, by weight, so a flood of one
 * tenant's requests fills only that tenant's part. Within a tenant: higher priority first, first-in
 * first-out within one priority. A waiting request gains one priority step every ageing_ns
 * (effective priority = priority + waited / ageing_ns), so low priority is never starved.
 * Costs: enqueue and remove O(log n), lookup by id O(1), no allocation
 * (batching/queue/queue_entry.h).
 *
 * Deadlines: the queue reads no clock. Its owner removes expired requests with _expired() before it
 * dequeues or takes, and a cancelled request with _remove().
 *
 * Threads: any; one mutex and one condition variable inside, the only ones below worker/ (a
 * blocking dequeue needs them). Memory:  tables for count_max entries and, for each tenant,
 * MR_QUEUE_RETURNS_MAX returned ones in _create; entries are borrowed while queued. Bounded by
 * count, by bytes and by blocks; a tenant without entries can always enqueue one. Errors:  _enqueue
 * MR_FULL, MR_CLOSED, MR_INVALID_REQUEST (id already queued). */
#ifndef MR_BATCHING_QUEUE_REQUEST_QUEUE_H
#define MR_BATCHING_QUEUE_REQUEST_QUEUE_H

#include "batching/queue/fair_share.h"
#include "batching/queue/queue_entry.h"
#include "codec/status.h"

#define MR_QUEUE_RETURNS_MAX 4096u /* entries that _return may add above count_max */
#define MR_QUEUE_SKIPS_MAX   8u    /* times _take passes over a request before it reserves */

struct mr_request_queue;

struct mr_request_queue_options {
    uint32_t count_max;
    uint64_t bytes_max;
    uint64_t ageing_ns;             /* waiting time worth one priority step; 0: no ageing */
    uint64_t blocks_max;            /* 0: blocks are not counted */
    uint32_t tenant_count;          /* at most MR_TENANTS_MAX; 0 means 1 */
    const uint32_t *tenant_weights; /* [tenant_count], read in _create; NULL: all equal */
};

enum mr_status mr_request_queue_create(struct mr_request_queue **out,
                                       const struct mr_request_queue_options *options,
                                       struct mr_error *err);
/* The queue must be empty. */
void mr_request_queue_destroy(struct mr_request_queue *queue);

/* Wakes one waiter. MR_OK: the entry is borrowed until it is dequeued or removed. */
enum mr_status mr_request_queue_enqueue(struct mr_request_queue *queue,
                                        struct mr_queue_entry *entry);
/* Re-enqueues a dequeued entry at its old place; never refused. Wakes one waiter. */
void mr_request_queue_return(struct mr_request_queue *queue, struct mr_queue_entry *entry);
/* The best entry, or NULL when empty. Does not block. */
struct mr_queue_entry *mr_request_queue_dequeue(struct mr_request_queue *queue);
/* The best entry of this tenant, even if another tenant is next; or NULL. */
struct mr_queue_entry *mr_request_queue_dequeue_of(struct mr_request_queue *queue, uint32_t tenant);
/* Blocks until there is an entry and returns it. NULL: CLOCK_MONOTONIC has passed until_ns, or
 * the queue is closed. until_ns UINT64_MAX: no timeout. */
struct mr_queue_entry *mr_request_queue_dequeue_until(struct mr_request_queue *queue,
                                                      uint64_t until_ns);

/* Dequeues up to count_max entries, in the order of _dequeue, whose cost_bytes sum stays within
 * bytes_budget. Entries that do not fit are passed over, at most MR_QUEUE_SKIPS_MAX times; then the
 * entry reserves the budget and nothing behind it is taken until it fits
 * (batching/queue/pass_over.h). Returns how many are in out. */
uint32_t mr_request_queue_take(struct mr_request_queue *queue, uint32_t count_max,
                               uint64_t bytes_budget, struct mr_queue_entry **out);

/* Removes and returns the entry of that id; NULL when it is not queued. O(log n). */
struct mr_queue_entry *mr_request_queue_remove(struct mr_request_queue *queue, struct mr_text id);
bool mr_request_queue_contains(struct mr_request_queue *queue, struct mr_text id);
/* Removes and returns one entry whose deadline is at or before now_ns; NULL when none. */
struct mr_queue_entry *mr_request_queue_expired(struct mr_request_queue *queue, uint64_t now_ns);
/* Removes and returns any entry; NULL when empty (clear by repeating). */
struct mr_queue_entry *mr_request_queue_drain(struct mr_request_queue *queue);

/* Bit i: tenant i is below all its bounds, so that a small entry would fit. 0 when closed. */
uint64_t mr_request_queue_room(struct mr_request_queue *queue);
/* Charges the tenant for work computed (batching/queue/fair_share.h). */
void mr_request_queue_charge(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost);
/* Bit i: tenant i has entries in the queue. */
uint64_t mr_request_queue_waiting(struct mr_request_queue *queue);
/* Divides count_max running places by weight among tenants that have entries here or places in
 * taken[]: at least 1 each; 0 for other tenants. taken, parts: [tenant_count]. */
void mr_request_queue_divide(struct mr_request_queue *queue, uint32_t count_max,
                             const uint32_t *taken, uint32_t *parts);
/* Tenant `one` was served less than `two`, when `allowance` of the cost charged to `one` is
 * ignored.
 */
bool mr_request_queue_is_behind(struct mr_request_queue *queue, uint32_t one, uint32_t two,
                                uint64_t allowance);
uint32_t mr_request_queue_count(struct mr_request_queue *queue);
bool mr_request_queue_is_empty(struct mr_request_queue *queue);
/* Refuses further entries and wakes all waiters. Queued entries can still be dequeued. */
void mr_request_queue_close(struct mr_request_queue *queue);
/* Asserts heap order, hash table and sums; O(n). */
void mr_request_queue_check(struct mr_request_queue *queue);

#endif
