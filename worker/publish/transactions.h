/* transactions - the thread of exactly-once delivery: writes the terminal records of requests and
 * the offsets of those requests in one transaction.
 *
 * A job is the content of one transaction: tickets whose requests are finished, and the offsets and
 * metadata that list these requests as finished. Intake fills the job
 * (worker/offsets/exactly_once.h). Records and offsets become visible together or not at all. The
 * tickets of an aborted job go into the next one. One job runs at a time; while it runs its tickets
 * belong to this thread, otherwise to intake.
 *
 * A step runs one phase and is called again at once or when the thread is woken:
 *
 *     prepare    determines which records are to be written and looks up reply topics
 *     begin, produce, commit    the transaction; aborts it when a record cannot be produced now
 *     renew      replaces a broken producer; the job is done if its transaction was committed
 *     report     passes the outcome to intake
 *
 * A job waits for an unreachable broker without a limit. librdkafka's transaction calls block, so
 * they have a separate thread. When the broker has ended a transaction because it took too long,
 * the job is aborted and the producer replaced (worker/kafka/kafka_txn.h).
 *
 * Threads: the main thread calls _create and _start; intake calls _submit, _take_outcome and
 *          _call_ns; any thread calls _stats; the transactions thread (or a simulation) calls
 *          _step.
 * Memory:  a transactional producer; the job belongs to intake.
 * Errors:  at creation; the error of a job is in job->outcome. */
#ifndef MR_WORKER_PUBLISH_TRANSACTIONS_H
#define MR_WORKER_PUBLISH_TRANSACTIONS_H

#include "worker/base/clock.h"
#include "worker/kafka/kafka_transactions_port.h"
#include "worker/publish/terminal.h"

struct mr_transactions;

struct mr_transactions_options {
    struct mr_transactions_opener producer; /* opens the producer; called by _create */
    struct mr_output_options output;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_heartbeats *heartbeats; /* watches the thread; NULL: not watched */
};

struct mr_transactions_job {
    /* list linked by intake.ready_next; each ticket has its terminal message (result or refusal) */
    struct mr_ticket *tickets;
    const struct mr_kafka_commit *commits;
    size_t commit_count;
    /* consumer-group membership for the offset commit; owned, freed when the job is done */
    struct mr_kafka_membership *membership;
    /* Filled when the job is done. MR_OK: records and offsets are committed. MR_AGAIN: none is; try
     * again. Other: no further transaction can be written. */
    struct mr_error outcome;
};

struct mr_transactions_stats {
    struct mr_terminal_stats terminal;
    /* transactions that ended, and how many of them were not committed */
    uint64_t transactions, aborted;
    uint64_t ns_sum;  /* total duration of the committed transactions */
    uint64_t renewed; /* number of times the producer was replaced */
};

/* Opens the producer. The broker then fences an older producer with the same transactional id. */
enum mr_status mr_transactions_create(struct mr_transactions **out,
                                      const struct mr_transactions_options *options,
                                      struct mr_error *err);
/* Starts the transactions thread. */
enum mr_status mr_transactions_start(struct mr_transactions *transactions, struct mr_error *err);
/* The body of the transactions thread; for its return value see worker/base/thread.h. */
uint64_t mr_transactions_step(struct mr_transactions *transactions, struct mr_time now);
/* The wake of the transactions thread, for a simulation that calls the step itself. */
const struct mr_wake *mr_transactions_wake(const struct mr_transactions *transactions);
/* Sets the wake to ring when a job is done; call before the first job. */
void mr_transactions_set_wake(struct mr_transactions *transactions, const struct mr_wake *wake);
/* Passes a job to the thread; no other job may be under way. The caller does not change the job or
 * anything it points to until _take_outcome returns true. */
void mr_transactions_submit(struct mr_transactions *transactions, struct mr_transactions_job *job);
/* Returns true once for each job, when the job is done. Never blocks. */
bool mr_transactions_take_outcome(struct mr_transactions *transactions);
struct mr_transactions_stats mr_transactions_stats(struct mr_transactions *transactions);
/* Monotonic time at which the running call of librdkafka began; 0: no call is running. A call that
 * runs for much more than a few seconds hangs. */
uint64_t mr_transactions_call_ns(const struct mr_transactions *transactions);
/* Waits at most timeout_ms for a running job to end; a job that waits for an unreachable broker
 * ends at once. False: a call of librdkafka has not returned. Then nothing is freed, and the caller
 * must not free the memory that the job points to. transactions may be NULL. */
bool mr_transactions_destroy(struct mr_transactions *transactions, uint32_t timeout_ms);

#endif
