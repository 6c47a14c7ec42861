/* request_queue - requests that wait for the engine, shared fairly between tenants and in priority
 * order within each tenant.
 *
 * Between tenants: the tenant that was served least goes first (batching/queue/fair_share.h). Each
 * tenant has its own part, by weight, of the bounds on entries, bytes and KV blocks, so a flood of
 * one tenant's requests fills only that tenant's part.
 *
 * Within a tenant: higher priority first, first-in first-out within one priority. A waiting request
 * gains one priority step every ageing_ns (effective priority = priority + time waited /
 * ageing_ns), so low priority is never starved. Costs: enqueue and remove O(log n), lookup by id
 * O(1), no allocation (batching/queue/queue_entry.h).
 *
 * Deadlines: the queue reads no clock. The queue's owner removes expired requests with _expired()
 * before it dequeues or takes, and a cancelled request with _remove().
 *
 * Threads: any; one mutex and one condition variable inside, the only ones below worker/ (a
 * blocking dequeue needs them).
 * Memory:  tables for count_max entries and, for each tenant, MR_QUEUE_RETURNS_MAX returned entries
 * in _create; entries are borrowed while queued. Bounded by count, by bytes and by KV blocks; a
 * tenant without entries can always enqueue one entry.
 * Errors:  _enqueue MR_FULL, MR_CLOSED, MR_INVALID_REQUEST (id already queued). */
#ifndef MR_BATCHING_QUEUE_REQUEST_QUEUE_H
#define MR_BATCHING_QUEUE_REQUEST_QUEUE_H

#include "batching/queue/fair_share.h"
#include "batching/queue/queue_entry.h"
#include "codec/status.h"

#define MR_QUEUE_RETURNS_MAX 4096u /* entries that _return may add to a full queue */
#define MR_QUEUE_SKIPS_MAX   8u    /* calls of _take that may pass over one request */

struct mr_request_queue;

struct mr_request_queue_options {
    uint32_t count_max;
    uint64_t bytes_max;
    /* waiting time worth one priority step; 0: waiting does not raise the priority */
    uint64_t ageing_ns;
    uint64_t blocks_max;            /* most KV blocks predicted for waiting requests; 0: no bound */
    uint32_t tenant_count;          /* at most MR_TENANTS_MAX; 0 means 1 */
    const uint32_t *tenant_weights; /* [tenant_count], read in _create; NULL: all weights equal */
};

enum mr_status mr_request_queue_create(struct mr_request_queue **out,
                                       const struct mr_request_queue_options *options,
                                       struct mr_error *err);
/* The queue must be empty. */
void mr_request_queue_destroy(struct mr_request_queue *queue);

/* Adds the entry and wakes one thread that waits in _dequeue_until. MR_OK: the queue borrows the
 * entry until it is dequeued or removed. */
enum mr_status mr_request_queue_enqueue(struct mr_request_queue *queue,
                                        struct mr_queue_entry *entry);
/* Puts a dequeued entry back at its old place in the order; never refused. Wakes one thread that
 * waits in _dequeue_until. */
void mr_request_queue_return(struct mr_request_queue *queue, struct mr_queue_entry *entry);
/* Removes and returns the entry that goes first; NULL when the queue is empty. Never blocks. */
struct mr_queue_entry *mr_request_queue_dequeue(struct mr_request_queue *queue);
/* Removes and returns the first entry of this tenant, even if another tenant's turn is next; NULL
 * when the tenant has no entry. */
struct mr_queue_entry *mr_request_queue_dequeue_of(struct mr_request_queue *queue, uint32_t tenant);
/* Returns the entry that _dequeue_of would remove, or NULL. It is valid until the calling thread,
 * the only one that removes entries, removes it. */
struct mr_queue_entry *mr_request_queue_first_of(struct mr_request_queue *queue, uint32_t tenant);
/* Blocks until the queue has an entry, removes the first one and returns it. NULL: CLOCK_MONOTONIC
 * has passed until_ns, or the queue is closed and empty. until_ns UINT64_MAX: no timeout. */
struct mr_queue_entry *mr_request_queue_dequeue_until(struct mr_request_queue *queue,
                                                      uint64_t until_ns);

/* Dequeues into `out`, in the order of _dequeue, up to count_max entries whose cost_bytes together
 * stay within bytes_budget. An entry that does not fit is passed over in at most MR_QUEUE_SKIPS_MAX
 * calls; after that no later entry is taken until it fits (batching/queue/pass_over.h). Returns the
 * number of entries in `out`. */
uint32_t mr_request_queue_take(struct mr_request_queue *queue, uint32_t count_max,
                               uint64_t bytes_budget, struct mr_queue_entry **out);

/* Removes and returns the entry with this id; NULL when no such entry is queued. O(log n). */
struct mr_queue_entry *mr_request_queue_remove(struct mr_request_queue *queue, struct mr_text id);
bool mr_request_queue_contains(struct mr_request_queue *queue, struct mr_text id);
/* Removes and returns one entry whose deadline is at or before now_ns; NULL when there is none. */
struct mr_queue_entry *mr_request_queue_expired(struct mr_request_queue *queue, uint64_t now_ns);
/* Removes and returns any entry; NULL when the queue is empty. Repeated calls empty the queue. */
struct mr_queue_entry *mr_request_queue_drain(struct mr_request_queue *queue);

/* Bit i of the result: tenant i is below all its bounds, so that a small entry would be accepted. 0
 * when the queue is closed. */
uint64_t mr_request_queue_room(struct mr_request_queue *queue);
/* Adds `cost` of computed tokens to what the tenant was served (batching/queue/fair_share.h). */
void mr_request_queue_charge(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost);
/* Takes back a part of what was charged: that of tokens that were not computed. */
void mr_request_queue_refund(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost);
/* Bit i of the result: tenant i has entries in the queue. */
uint64_t mr_request_queue_waiting(struct mr_request_queue *queue);
/* Divides count_max running places by weight among the tenants that have entries in the queue or
 * running places (taken): parts[i] is at least 1; 0 for other tenants. taken, parts:
 * [tenant_count]. */
void mr_request_queue_divide(struct mr_request_queue *queue, uint32_t count_max,
                             const uint32_t *taken, uint32_t *parts);
/* True when tenant `one` was served less than tenant `two` in proportion to their weights, when
 * `allowance` of the cost charged to `one` is ignored. */
bool mr_request_queue_is_behind(struct mr_request_queue *queue, uint32_t one, uint32_t two,
                                uint64_t allowance);
uint32_t mr_request_queue_count(struct mr_request_queue *queue);
bool mr_request_queue_is_empty(struct mr_request_queue *queue);
/* Refuses further entries and wakes all threads that wait in _dequeue_until. Queued entries can
 * still be dequeued. */
void mr_request_queue_close(struct mr_request_queue *queue);
/* Asserts the order of the heaps, the hash table and the sums of bytes and blocks; O(n). */
void mr_request_queue_check(struct mr_request_queue *queue);

#endif
