/* commit_schedule - the time of the next commit, its offsets, and the outcome of the last commit.
 * The caller sends the commit to the broker: worker/intake/intake.c with at-least-once delivery,
 * worker/offsets/exactly_once.h in a transaction.
 *
 * One commit is in flight at a time. A commit that has no outcome after MR_COMMIT_OUTCOME_NS is
 * treated as failed. A failed commit is repeated after a pause.
 *
 * Owner:  intake thread. Memory: the batch. Errors: none; failures go to the log and to metrics. */
#ifndef MR_WORKER_OFFSETS_COMMIT_SCHEDULE_H
#define MR_WORKER_OFFSETS_COMMIT_SCHEDULE_H

#include "worker/base/fault.h"
#include "worker/base/log.h"
#include "worker/metrics/metrics.h"
#include "worker/offsets/partition.h"

#define MR_COMMIT_OUTCOME_NS ((uint64_t)30000000000)

struct mr_commit_schedule {
    struct mr_partitions *partitions;
    const struct mr_fault *fault; /* while it is raised, a failed commit is not repeated */
    struct mr_log *log;
    struct mr_metrics *metrics;
    uint64_t interval_ns;
    uint64_t due_ns;        /* when the next commit is due; UINT64_MAX: nothing to commit */
    uint64_t sent_ns;       /* when the last commit was sent */
    bool pending;           /* the last commit was sent and has no outcome yet */
    bool in_transaction;    /* the last commit is part of a transaction */
    enum mr_status outcome; /* number of the last commit that has an outcome */
    int64_t since_ms; /* unix ms: lower bound on the timestamps of results not listed in a commit */
    uint64_t commits, failures;
    struct mr_kafka_commit *batch; /* [batch_max], allocated by _gather; the owner frees it */
    size_t batch_max;
};

/* Makes the next commit due at when_ns at the latest. */
void mr_commit_schedule_by(struct mr_commit_schedule *schedule, uint64_t when_ns);
/* Makes the next commit due one interval after the last commit. */
void mr_commit_schedule_soon(struct mr_commit_schedule *schedule);
bool mr_commit_schedule_is_due(const struct mr_commit_schedule *schedule, uint64_t now_ns);
/* Fills the batch with all offsets not committed yet and returns the number of partitions in it.
 * Afterwards no commit is due. */
size_t mr_commit_schedule_gather(struct mr_commit_schedule *schedule);
/* Call after the batch was sent to the broker, or (in_transaction) to the transactions thread. */
void mr_commit_schedule_sent(struct mr_commit_schedule *schedule, bool in_transaction,
                             uint64_t now_ns);
/* Applies a COMMITTED event (worker/kafka/kafka_consumer_port.h), which lists the partitions whose
 * commit failed. An event of an earlier commit, recognised by its number, is ignored: a later
 * commit repeats that one. */
void mr_commit_schedule_answered(struct mr_commit_schedule *schedule,
                                 const struct mr_kafka_event *event, uint64_t now_ns);
/* Applies one outcome to all partitions of the commit in flight. No effect when none is in flight.
 */
void mr_commit_schedule_finished(struct mr_commit_schedule *schedule, enum mr_status status,
                                 const char *reason, uint64_t now_ns);
/* Fails a commit that has had no outcome for MR_COMMIT_OUTCOME_NS. A transaction is left alone: its
 * outcome always arrives. */
void mr_commit_schedule_expire(struct mr_commit_schedule *schedule, uint64_t now_ns);

#endif
