/* transactions - the thread of exactly-once delivery: writes the terminal records of requests and
 * the offsets of those requests in one transaction.
 *
 * One job at a time. Intake seals the job: from then on the offset ledger lists its requests as
 * finished, and the offsets in the job say so. Records and offsets become visible together or not
 * at all. The requests of an aborted job go into the next one. While a job runs its tickets belong
 * to this thread; before and after, to intake.
 *
 * A step does one of these and then runs again at once, or when its wake is rung:
 *
 *     prepare    finds out which records there are, and whether reply topics exist
 *     begin, produce, commit    or abort, when a record cannot be produced now
 *     renew      replaces a producer that broke; the job is done if its transaction was committed
 *     report     hands the outcome to intake
 *
 * A job waits for a broker that is away, however long: librdkafka's calls block, so this thread is
 * the only one whose step may. When the broker has ended a transaction because it took too long,
 * the job is aborted and the producer replaced (worker/kafka/kafka_txn.h).
 *
 * Threads: _create, _start, _submit, _take_outcome and _destroy the owner's; _stats and _call_ns
 *          any; _step the transactions thread, or a simulation in place of _start.
 * Memory:  a transactional producer; the job is its owner's. Errors: at creation; a job's own come
 *          back with it. */
#ifndef MR_WORKER_PUBLISH_TRANSACTIONS_H
#define MR_WORKER_PUBLISH_TRANSACTIONS_H

#include "worker/base/clock.h"
#include "worker/kafka/kafka_transactions_port.h"
#include "worker/publish/terminal.h"

struct mr_transactions;

struct mr_transactions_options {
    struct mr_transactions_opener producer; /* called by _create */
    struct mr_output_options output;
    struct mr_log *log;
    struct mr_metrics *metrics;
};

struct mr_transactions_job {
    struct mr_ticket *tickets; /* linked by intake.ready_next; each with its terminal message */
    const struct mr_kafka_commit *commits;
    size_t commit_count;
    struct mr_kafka_membership *membership; /* owned, freed when the job is done */
    /* Filled when the job is done. MR_OK: all is on the broker. MR_AGAIN: nothing is. Other:
     * nothing can be written any more. */
    struct mr_error outcome;
};

struct mr_transactions_stats {
    struct mr_terminal_stats terminal;
    uint64_t transactions, aborted; /* that ended; that ended without being committed */
    uint64_t ns_sum;                /* of the committed ones */
    uint64_t renewed;               /* producers replaced */
};

/* Opens the producer, which fences an earlier one of the same id. */
enum mr_status mr_transactions_create(struct mr_transactions **out,
                                      const struct mr_transactions_options *options,
                                      struct mr_error *err);
/* Starts the thread. */
enum mr_status mr_transactions_start(struct mr_transactions *transactions, struct mr_error *err);
/* See worker/base/thread.h. */
uint64_t mr_transactions_step(struct mr_transactions *transactions, struct mr_time now);
/* The wake to ring when a job is done; set before the first job. */
void mr_transactions_set_wake(struct mr_transactions *transactions, const struct mr_wake *wake);
/* There is no other job. The job and what it points to stay as they are until _take_outcome returns
 * true. */
void mr_transactions_submit(struct mr_transactions *transactions, struct mr_transactions_job *job);
/* True once for each job, when it is done. Never blocks. */
bool mr_transactions_take_outcome(struct mr_transactions *transactions);
struct mr_transactions_stats mr_transactions_stats(struct mr_transactions *transactions);
/* When the library call that runs now began, monotonic; no call should take more than some seconds.
 * 0: none runs. */
uint64_t mr_transactions_call_ns(const struct mr_transactions *transactions);
/* Waits for a job that runs, but not for a broker that is away. transactions may be NULL. */
void mr_transactions_destroy(struct mr_transactions *transactions);

#endif
