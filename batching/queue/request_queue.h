/* request_queue - the ids of all requests in the engine, and the order of those that wait.
 *
 * An entry (batching/queue/queue_entry.h) stands for one request. _enqueue makes it waiting; it
 * leaves the order with _dequeue, _expired, _drain or _cancelled, and its id stays in use until
 * _release. So the queue knows the ids of running requests too, under the same mutex: a second
 * request with the id of a waiting or running one is refused, and a cancel finds both.
 *
 * Between tenants: the tenant that was served least goes first (batching/queue/fair_share.h). Each
 * tenant has its own part, by weight, of the bounds on entries, bytes and KV blocks, so a flood of
 * one tenant's requests fills only that tenant's part.
 *
 * Within a tenant: higher priority first, first-in first-out within one priority. A waiting request
 * gains one priority step every ageing_ns (effective priority = priority + time waited /
 * ageing_ns), so low priority is never starved. Costs: enqueue and dequeue O(log n), lookup by id
 * O(1), no allocation.
 *
 * Slack: an entry's slack is the time until its deadline less its predicted own time, from start
 * to end. An entry is urgent while its slack is positive and at most its own time. Of a tenant's
 * entries with the same priority or a lower one, the urgent ones go first, the least slack first,
 * but at most every second one dequeued: entries without a deadline are not starved. An entry that
 * cannot meet its deadline by the prediction is not urgent. Own times are predicted when an entry
 * is new, and again each time when half of the time until it would be urgent has passed.
 *
 * Cancels: _cancel marks the entry and adds it to a list, first come, first served; the engine
 * thread empties the list with _cancelled. An entry is in the list at most once, so the list needs
 * no memory and no bound of its own.
 *
 * Deadlines: the queue reads no clock. The engine thread removes expired requests with _expired()
 * before it dequeues.
 *
 * Threads: any, unless a function names one; one mutex inside, the only one below worker/.
 * Memory:  tables for count_max entries and, for each tenant, MR_QUEUE_RETURNS_MAX returned entries
 * in _create; entries are borrowed from _enqueue to _release. Waiting entries are bounded by count,
 * by bytes and by KV blocks; a tenant without waiting entries can always enqueue one entry.
 * Errors:  _enqueue MR_FULL, MR_INVALID_REQUEST (id in use). */
#ifndef MR_BATCHING_QUEUE_REQUEST_QUEUE_H
#define MR_BATCHING_QUEUE_REQUEST_QUEUE_H

#include "batching/queue/fair_share.h"
#include "batching/queue/queue_entry.h"
#include "codec/status.h"

#define MR_QUEUE_RETURNS_MAX 4096u /* entries that _return may add to a full queue */

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
/* No entry may wait, and every id must have been released. queue may be NULL. */
void mr_request_queue_destroy(struct mr_request_queue *queue);

/* Adds a waiting entry. MR_OK: the queue borrows the entry until _release. */
enum mr_status mr_request_queue_enqueue(struct mr_request_queue *queue,
                                        struct mr_queue_entry *entry);
/* Puts a dequeued entry back at its old place in the order; never refused. */
void mr_request_queue_return(struct mr_request_queue *queue, struct mr_queue_entry *entry);
/* Call when the request of an entry that does not wait has ended: frees its id, and drops its
 * cancel if _cancelled has not returned the entry. */
void mr_request_queue_release(struct mr_request_queue *queue, struct mr_queue_entry *entry);
/* Marks the entry with this id, waiting or not, as cancelled; a second call changes nothing. False:
 * no entry has this id. */
bool mr_request_queue_cancel(struct mr_request_queue *queue, struct mr_text id);
/* Returns a cancelled entry, each once and in the order of the cancels; NULL: there is none. An
 * entry that waits is removed from the order. Engine thread: the only one that calls _release. */
struct mr_queue_entry *mr_request_queue_cancelled(struct mr_request_queue *queue);
/* Removes and returns the entry that goes first; NULL when the queue is empty. Never blocks. */
struct mr_queue_entry *mr_request_queue_dequeue(struct mr_request_queue *queue);
/* Removes and returns the first entry of this tenant, even if another tenant's turn is next; NULL
 * when the tenant has no entry. */
struct mr_queue_entry *mr_request_queue_dequeue_of(struct mr_request_queue *queue, uint32_t tenant);
/* Returns the entry that _dequeue_of would remove, or NULL. It is valid until the engine thread,
 * the only one that removes entries, removes it. */
struct mr_queue_entry *mr_request_queue_first_of(struct mr_request_queue *queue, uint32_t tenant);
/* Updates which waiting entries are urgent. own_ns: returns the predicted own time of an entry, 0
 * if unknown; it must not call the queue, whose mutex is locked. Engine thread. */
void mr_request_queue_update_urgent(struct mr_request_queue *queue, uint64_t now_ns,
                                    uint64_t (*own_ns)(void *context, struct mr_queue_entry *entry),
                                    void *context);
/* Removes and returns one entry whose deadline is at or before now_ns; NULL when there is none. */
struct mr_queue_entry *mr_request_queue_expired(struct mr_request_queue *queue, uint64_t now_ns);
/* Removes and returns any entry; NULL when the queue is empty. Repeated calls empty the queue. */
struct mr_queue_entry *mr_request_queue_drain(struct mr_request_queue *queue);

/* Bit i of the result: tenant i is below all its bounds, so that a small entry would be accepted.
 */
uint64_t mr_request_queue_room(struct mr_request_queue *queue);
/* Charges the cost of computed tokens to the tenant (batching/queue/fair_share.h). */
void mr_request_queue_charge(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost);
/* Refunds the cost of tokens that were charged and not computed. */
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
/* Asserts the order of the heaps, the hash table and the sums of bytes and blocks; O(n). */
void mr_request_queue_check(struct mr_request_queue *queue);

#endif
