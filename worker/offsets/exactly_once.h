/* exactly_once - exactly-once delivery: which requests and offsets go into the next transaction.
 *
 * Requests whose terminal records (result, reply, dead letter) are to be written wait in the ready
 * list. Each commit takes the requests off the list ("seals" them) and passes them, with the
 * offsets to commit, to the transactions thread (worker/publish/transactions.h).
 *
 * Sealing marks a request finished in the offset ledger, so its terminal records are in the same
 * transaction as the commit that lists it as finished. Requests of an aborted transaction return to
 * the head of the list. A request of a suspended partition stays in the list; a request of a lost
 * partition is dropped.
 *
 * A commit without terminal records (starts, offsets that recovery found) is sent outside of a
 * transaction, which would cost several times as much. One commit is in flight at a time, of either
 * kind, because the group coordinator applies them in the order in which they reach its log. A
 * sealed request in the ready list is one whose transaction was aborted: the ledger lists it as
 * finished, but its records are not written. While there is one, every commit is a transaction.
 *
 * Owner:  intake thread. Memory: the job (one transaction). Errors, raised in the fault: a
 *         transaction can never be written; a library call hangs for MR_CALL_TICKS_MAX ticks. */
#ifndef MR_WORKER_OFFSETS_EXACTLY_ONCE_H
#define MR_WORKER_OFFSETS_EXACTLY_ONCE_H

#include "worker/offsets/commit_schedule.h"
#include "worker/publish/transactions.h"

#define MR_CALL_TICKS_MAX 60u

/* Where tickets go when their transaction has ended. Both functions free the ticket. Filled by
 * worker/intake/admission.h. */
struct mr_ticket_sink {
    void *self;
    /* The terminal records of the ticket are on the broker, or the ticket was dropped. */
    void (*done)(void *self, struct mr_ticket *ticket);
    /* The ticket ends without a result: its record is delivered again. */
    void (*returned)(void *self, struct mr_ticket *ticket);
};

struct mr_exactly_once {
    struct mr_transactions *transactions; /* borrowed; NULL: at-least-once delivery */
    struct mr_ticket_sink sink;
    struct mr_commit_schedule *schedule;
    struct mr_fault *fault;
    /* list of requests whose terminal records are to be written, oldest first */
    struct mr_ticket *ready, *ready_last;
    uint32_t sealed;  /* requests in the list that the ledger marks as finished */
    uint64_t due_ns;  /* when the next transaction is due; UINT64_MAX: nothing is ready */
    uint64_t sent_ns; /* when the last transaction was sealed */
    /* owned by the transactions thread while a commit is pending */
    struct mr_transactions_job job;
    /* start time of the library call that was running at the last tick (one second); 0: none */
    uint64_t call_ns;
    uint32_t call_ticks; /* number of ticks for which that call has been running */
};

/* Adds a ticket to the ready list: publish has written its token records, not its terminal ones. */
void mr_exactly_once_ready(struct mr_exactly_once *exactly_once, struct mr_ticket *ticket);
/* Whether a commit made now must be a transaction: terminal records are due, or the commit would
 * list a request as finished whose records are not written. */
bool mr_exactly_once_is_due(const struct mr_exactly_once *exactly_once, uint64_t now_ns);
/* Moves the ready requests and the offsets to commit into the job. False: there is nothing to
 * commit. No commit may be pending. */
bool mr_exactly_once_seal(struct mr_exactly_once *exactly_once, uint64_t now_ns);
/* Passes the job to the transactions thread. Takes ownership of membership. */
void mr_exactly_once_start(struct mr_exactly_once *exactly_once,
                           struct mr_kafka_membership *membership, uint64_t now_ns);
/* Applies the outcome of the transaction, if the transactions thread has posted one. */
void mr_exactly_once_poll(struct mr_exactly_once *exactly_once, uint64_t now_ns);
/* Call once a second: raises the fault when one library call has been running for MR_CALL_TICKS_MAX
 * ticks. Ticks are counted instead of time because the process may have been stopped. */
void mr_exactly_once_tick(struct mr_exactly_once *exactly_once);
/* Returns all tickets to intake. The transactions thread must have ended. */
void mr_exactly_once_drop_all(struct mr_exactly_once *exactly_once);

#endif
