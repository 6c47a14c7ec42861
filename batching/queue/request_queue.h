/* request_queue - requests that wait for the engine: tenants in turns, each in priority order.
 *
 * Between tenants the one that was served least goes first (batching/queue/fair_share.h), and each
 * has its own part of the places, the bytes and the blocks, by weight: whoever floods the queue
 * fills only its own part. Within a tenant: higher priority first, first-in first-out within one; a
 * waiting request gains one priority step every ageing_ns, so low priority is never starved for
 * ever (effective priority = priority + waited / ageing_ns, which keeps a fixed order between any
 * two entries and so a plain heap works). Entries are intrusive in struct mr_queue_entry: no
 * allocation to enqueue, O(log n) to enqueue and remove, O(1) look-up by id through a hash table
 * made at creation.
 *
 * Deadlines: the queue reads no clock. Its owner takes out what has expired with _expired() before
 * it dequeues or takes, and sleeps no longer than to _next_deadline(); a cancelled request is taken
 * out with _remove() at once.
 *
 * Threads: any; one mutex and one condition variable inside, the only ones below worker/ (SPEC S2.2
 *          asks for a blocking dequeue). Each call says what it wakes.
 * Memory:  tables for count_max entries and, for each tenant, MR_QUEUE_RETURNS_MAX returned ones in
 *          _create; entries belong to the caller and must outlive their stay. Bounded by count, by
 *          bytes and by blocks; of a tenant with nothing here one entry always fits.
 * Errors:  _enqueue MR_FULL, MR_CLOSED, MR_INVALID_REQUEST (id already here). */
#ifndef MR_BATCHING_QUEUE_REQUEST_QUEUE_H
#define MR_BATCHING_QUEUE_REQUEST_QUEUE_H

#include "batching/queue/fair_share.h"
#include "batching/queue/queue_entry.h"
#include "codec/status.h"

#define MR_QUEUE_RETURNS_MAX 4096u /* entries _return may put on top of count_max */
#define MR_QUEUE_SKIPS_MAX   8u    /* times a request is passed over before it reserves */

struct mr_request_queue;

struct mr_request_queue_options {
    uint32_t count_max;
    uint64_t bytes_max;
    uint64_t ageing_ns;             /* wait that is worth one priority step; 0: no ageing */
    uint64_t blocks_max;            /* 0: blocks are not counted */
    uint32_t tenant_count;          /* at most MR_TENANTS_MAX; 0 is 1 */
    const uint32_t *tenant_weights; /* [tenant_count], read in _create; NULL: all the same */
};

enum mr_status mr_request_queue_create(struct mr_request_queue **out,
                                       const struct mr_request_queue_options *options,
                                       struct mr_error *err);
/* Must be empty. */
void mr_request_queue_destroy(struct mr_request_queue *queue);

/* Wakes one waiter. MR_OK: the queue holds entry until it is dequeued or removed. */
enum mr_status mr_request_queue_enqueue(struct mr_request_queue *queue,
                                        struct mr_queue_entry *entry);
/* Back to its old place (a preempted or skipped request); never refused for being full. */
void mr_request_queue_return(struct mr_request_queue *queue, struct mr_queue_entry *entry);
/* Best entry, or NULL when empty. Does not block. */
struct mr_queue_entry *mr_request_queue_dequeue(struct mr_request_queue *queue);
/* The best entry of this tenant, whoever's turn it is, or NULL. */
struct mr_queue_entry *mr_request_queue_dequeue_of(struct mr_request_queue *queue, uint32_t tenant);
/* Blocks until there is an entry (returned) or CLOCK_MONOTONIC passes until_ns or the queue is
 * closed or _wake is called (NULL). until_ns UINT64_MAX: for ever. */
struct mr_queue_entry *mr_request_queue_dequeue_until(struct mr_request_queue *queue,
                                                      uint64_t until_ns);
/* The same wait without taking anything: true when there is an entry. */
bool mr_request_queue_wait(struct mr_request_queue *queue, uint64_t until_ns);
/* Ends one present or the next _wait or _dequeue_until early. */
void mr_request_queue_wake(struct mr_request_queue *queue);

/* Takes up to count_max entries in the order of _dequeue whose cost_bytes sum stays within
 * bytes_budget. Misfits are passed over; an entry that has seen a later one taken
 * MR_QUEUE_SKIPS_MAX times reserves the budget: nothing behind it is taken until it fits. Returns
 * how many are in out. */
uint32_t mr_request_queue_take(struct mr_request_queue *queue, uint32_t count_max,
                               uint64_t bytes_budget, struct mr_queue_entry **out);

/* The entry of that id, removed; NULL when not here. O(log n). */
struct mr_queue_entry *mr_request_queue_remove(struct mr_request_queue *queue, struct mr_text id);
bool mr_request_queue_contains(struct mr_request_queue *queue, struct mr_text id);
/* Removes and returns one entry whose deadline is at or before now_ns; NULL when none. */
struct mr_queue_entry *mr_request_queue_expired(struct mr_request_queue *queue, uint64_t now_ns);
/* Removes and returns any entry; NULL when empty (clear by repeating). */
struct mr_queue_entry *mr_request_queue_drain(struct mr_request_queue *queue);

/* Earliest deadline of what is inside; 0 when nothing has one. */
uint64_t mr_request_queue_next_deadline(struct mr_request_queue *queue);
/* An _enqueue of that many held_bytes would not be MR_FULL or MR_CLOSED now. */
bool mr_request_queue_has_room(struct mr_request_queue *queue, uint32_t tenant,
                               uint64_t held_bytes);
/* Bit i: tenant i is below all its bounds, so that another entry may well fit. */
uint64_t mr_request_queue_room(struct mr_request_queue *queue);
/* So much was computed for the tenant (batching/queue/fair_share.h). */
void mr_request_queue_charge(struct mr_request_queue *queue, uint32_t tenant, uint64_t cost);
/* Bit i: tenant i has entries here. */
uint64_t mr_request_queue_waiting(struct mr_request_queue *queue);
/* How the places at a table of count_max are divided now: a part by weight for each tenant that has
 * entries here or in taken[], at least 1; 0 for the others. taken, parts: [tenant_count]. */
void mr_request_queue_divide(struct mr_request_queue *queue, uint32_t count_max,
                             const uint32_t *taken, uint32_t *parts);
/* Tenant `one` has been served less than `two`, `allowance` of its cost left out. */
bool mr_request_queue_is_behind(struct mr_request_queue *queue, uint32_t one, uint32_t two,
                                uint64_t allowance);
uint32_t mr_request_queue_count(struct mr_request_queue *queue);
uint64_t mr_request_queue_bytes(struct mr_request_queue *queue);
bool mr_request_queue_is_empty(struct mr_request_queue *queue);
/* No more enqueue; waiters wake. What is inside can still be taken. */
void mr_request_queue_close(struct mr_request_queue *queue);
/* Asserts heap order, hash and sums; O(n). */
void mr_request_queue_check(struct mr_request_queue *queue);

#endif
