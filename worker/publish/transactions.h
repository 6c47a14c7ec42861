/* transactions - the thread of exactly-once delivery: what ends requests, and the offsets of those
 * requests, in one transaction.
 *
 * One job at a time. Intake seals it: from then on the ledger calls its requests finished, and the
 * offsets in the job say so; both become visible together or not at all. An aborted job's requests
 * go into the next one. While a job runs its requests are transactions's; before and after,
 * intake's.
 *
 * A job waits for a broker that is away, however long. A transaction that the broker gave up
 * meanwhile is aborted, and its producer replaced (worker/kafka/kafka_txn.h).
 *
 * Threads: one, "transactions"; _start, _wait and _destroy the owner's (intake); _stats any.
 * Memory: a transactional producer; the job is its owner's. Errors: at creation; a job's own come
 *          back with it. */
#ifndef MR_WORKER_PUBLISH_TRANSACTIONS_H
#define MR_WORKER_PUBLISH_TRANSACTIONS_H

#include "worker/kafka/kafka_txn.h"
#include "worker/publish/terminal.h"

struct mr_transactions;

struct mr_transactions_options {
    const struct mr_kafka_options *kafka;
    const char *transactional_id;
    struct mr_output_options output;
    const struct mr_request_topic *topics;
    uint32_t timeout_ms; /* of a question to the broker */
    struct mr_log *log;
    struct mr_metrics *metrics;
};

struct mr_transactions_job {
    struct mr_ticket *tickets; /* linked by intake.ready_next; each with its ending */
    const struct mr_kafka_commit *commits;
    size_t commit_count;
    struct mr_kafka_membership *membership; /* owned, freed when the job is done */
    /* Filled when it is done. MR_OK: all is on the broker. MR_AGAIN: nothing is. Other: nothing can
     * be written any more. */
    struct mr_error outcome;
};

struct mr_transactions_stats {
    struct mr_terminal_stats terminal;
    uint64_t transactions, aborted; /* that ended; that ended without coming through */
    uint64_t ns_sum;                /* of those that came through */
    uint64_t renewed;               /* producers replaced */
};

/* Opens the producer, which fences an earlier one of the same id, and starts the thread. */
enum mr_status mr_transactions_create(struct mr_transactions **out,
                                      const struct mr_transactions_options *options,
                                      struct mr_error *err);
/* Rung when a job is done; set before the first. */
void mr_transactions_set_wake(struct mr_transactions *transactions, const struct mr_wake *wake);
/* There is no other job. The job and what it points to stay as they are until _wait returns true.
 */
void mr_transactions_submit(struct mr_transactions *transactions, struct mr_transactions_job *job);
/* Waits up to timeout_ms for the job to be done. False: it is not, or there is none. */
bool mr_transactions_wait(struct mr_transactions *transactions, uint32_t timeout_ms);
struct mr_transactions_stats mr_transactions_stats(struct mr_transactions *transactions);
/* Since when the library has been in one call, none of which takes longer than some seconds; 0: it
 * is in none. */
uint64_t mr_transactions_call_ns(const struct mr_transactions *transactions);
/* A job that runs is waited for, but not for a broker that is away. transactions may be NULL. */
void mr_transactions_destroy(struct mr_transactions *transactions);

#endif
